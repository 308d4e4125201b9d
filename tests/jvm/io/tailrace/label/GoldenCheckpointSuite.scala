package io.tailrace.label

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import io.tailrace.testkit.{Checkpoint, GoldenCheckpoint, NeverLate, SparkSuite, StreamHarness}

/** Checkpoints that releases have left are gone on from by this one. */
class GoldenCheckpointSuite extends SparkSuite {
  private val golden = new File("tests/jvm/resources/golden")

  private val found = for {
    release <- golden.listFiles.toSeq.sorted
    format <- release.listFiles.toSeq.sorted
  } yield (release.getName, format)

  test("there is one of each format of Spark's from each release") {
    assert(found.groupMap(_._1)(_._2.getName).values.forall(_ == Seq("format-1", "format-2")))
    assert(found.nonEmpty)
  }

  found.foreach { case (release, directory) =>
    test(s"release $release, ${directory.getName}") {
      val format = directory.getName.stripPrefix("format-")
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format) {
        withDirectory { d =>
          val checkpoint = new File(d, "checkpoint")
          Checkpoint.copy(new File(directory, "checkpoint"), checkpoint)
          val before = Files.readAllLines(new File(directory, "out.txt").toPath).asScala.toSeq
          val h = new StreamHarness(spark, checkpoint)(NeverLate.query(NeverLate.options()))
          GoldenCheckpoint.batches.foreach { case (served, engaged) => h.preload(served, engaged) }
          h.start()
          val more = NeverLate.batch(11, new scala.util.Random(11))
          h.step(more._1, more._2)
          h.step(NeverLate.end._1, NeverLate.end._2)
          val expected = NeverLate.expected(GoldenCheckpoint.batches :+ more).map(_.toString)
          assert(before.nonEmpty && h.all.nonEmpty)
          assert((before ++ h.all.map(_.toString)).sorted == expected.sorted)
        }
      }
    }
  }
}
