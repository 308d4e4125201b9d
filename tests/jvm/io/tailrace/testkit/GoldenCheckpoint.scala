package io.tailrace.testkit

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._
import scala.util.Random

/** A checkpoint of a query in the middle of its work, as a release leaves it, for all later releases to go on from.
  * `jvm/docs/formats.md` has the command that makes one.
  *
  * {{{
  *   <release>/format-<n>/checkpoint   of Spark's checkpoint format n
  *   <release>/format-<n>/out.txt      what had come out by then
  * }}}
  */
object GoldenCheckpoint {

  /** The input so far. Checkpoints of old releases were made of it: it can't change any more. */
  val batches: Seq[NeverLate.Batch] = Seq(1, 4, 7, 10).map(i => NeverLate.batch(i, new Random(i.toLong)))

  /** Makes those of this release. */
  def main(arguments: Array[String]): Unit = {
    val spark = SparkSuite.session
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    Seq(1, 2).foreach { format =>
      spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", format.toString)
      val target = new File(arguments(0), s"format-$format")
      val checkpoint = Files.createTempDirectory("golden").toFile
      val h = new StreamHarness(spark, checkpoint)(NeverLate.query(NeverLate.options())).start()
      batches.foreach { case (served, engaged) => h.step(served, engaged) }
      h.stop()
      Checkpoint.copy(checkpoint, new File(target, "checkpoint"))
      Files.write(new File(target, "out.txt").toPath, h.all.map(_.toString).asJava)
    }
    spark.stop()
  }
}
