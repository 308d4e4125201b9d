package io.tailrace.plan

import java.io.File
import java.nio.file.Files

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, Dataset, Row}

import io.tailrace.api.Tailrace
import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.recursion.RecursionOptions
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Emitted, Engaged, Served, SparkSuite, StreamHarness}

/** Sources that have names, by which Spark's offset log (version 2) has their offsets. */
final class NamedSourcesSuite extends SparkSuite {
  import spark.implicits._

  private val evolution = "spark.sql.streaming.queryEvolution.enableSourceEvolution"

  /** A source of files, whose rows a test adds. */
  private final class FilesOf(directory: File, name: String, first: DataFrame) {
    add(first)

    def add(rows: DataFrame): Unit = rows.coalesce(1).write.mode("append").parquet(directory.getPath)
    def read: DataFrame =
      spark.readStream
        .name(name)
        .schema(first.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(directory.getPath)
  }

  /** Runs a query over all that is there. */
  private def run(frame: DataFrame, checkpoint: File): Seq[Row] = {
    val out = new ArrayBuffer[Row]
    val query = frame.writeStream
      .option("checkpointLocation", checkpoint.getPath)
      .foreachBatch { (rows: Dataset[Row], _: Long) => out.synchronized(out ++= rows.collect()): Unit }
      .start()
    try query.processAllAvailable()
    finally query.stop()
    out.toSeq
  }

  private def served(id: Int): DataFrame = Seq(Served("k", seconds(id * 10.0), id)).toDF()
  private def engaged(id: Int): DataFrame = Seq(Engaged("k", seconds(id * 10.0 + 1), id)).toDF()

  test("a label join goes on when its query reads its sources in another order") {
    withDirectory { directory =>
      withConf(evolution -> true) {
        val left = new FilesOf(new File(directory, "left"), "impressions", served(1))
        val more = new FilesOf(new File(directory, "more"), "more_impressions", served(2))
        val right = new FilesOf(new File(directory, "right"), "engagements", engaged(1))
        val checkpoint = new File(directory, "checkpoint")
        def joined(lefts: FilesOf*): DataFrame = StreamHarness.join(StreamHarness.options("5 seconds"))(
          lefts.map(_.read).reduce(_ union _),
          right.read
        )
        val before = run(joined(left, more), checkpoint)
        left.add(served(3))
        right.add(engaged(2))
        right.add(engaged(3))
        val after = run(joined(more, left), checkpoint)

        val log = new SparkCheckpoint(new Path(checkpoint.toURI), hadoopConf)
        val batch = log.begunBatches.max
        assert(log.entry(batch).head == "v2")
        val offsets = log.begun(batch).get.sources
        // By name: engagements, impressions, more_impressions. The file source counts its files.
        assert(offsets == Seq(2, 1, 0).map(n => s"""{"logOffset":$n}"""))

        left.add(served(10))
        right.add(engaged(10))
        val last = run(joined(left, more), checkpoint)
        val all = (before ++ after ++ last).map(Emitted.of)
        assert(all.map(_.id.get).sorted == Seq(1, 2, 3) && all.forall(row => row.labels == row.id.toSeq), all)
      }
    }
  }

  test("a recursion by feedback has a source of its own, whose name it gives") {
    withDirectory { directory =>
      withConf(evolution -> true) {
        val input = new FilesOf(new File(directory, "in"), "seeds", Seq(1L).toDF("n"))
        val checkpoint = new File(directory, "checkpoint")
        val options = RecursionOptions(mode = "feedback")
        def looped = Tailrace.recursively(input.read, options)(rows =>
          rows.select((rows("n") * 2).as("n")).where("n < 20")
        )
        assert(run(looped, checkpoint).map(_.getLong(0)).sorted == Seq(2L, 4L, 8L, 16L))
        input.add(Seq(3L).toDF("n"))
        assert(run(looped, checkpoint).map(_.getLong(0)).sorted == Seq(6L, 12L))
      }
    }
  }

  test("what a join notes of its batches is in a log of version 2 as in one of version 1") {
    def closed(version: Int): Seq[Emitted] = withClock { (directory, clock) =>
      withConf("spark.sql.streaming.offsetLog.formatVersion" -> version) {
        val options =
          StreamHarness.options("5 seconds").copy(releaseEvery = Some("batch"), idleTimeout = Some("1 hour"))
        val harness = new StreamHarness(spark, directory, Some(clock))(StreamHarness.join(options)).start()
        harness.step(Seq(Served("k", seconds(1), 1)), Seq(Engaged("k", seconds(2), 7)))
        (1 to 9).foreach { _ =>
          clock.advance(hour / 8)
          harness.settle()
        }
        val closing = harness.batchCount - 1
        harness.stop()
        val log = new SparkCheckpoint(new Path(directory.toURI), hadoopConf)
        assert(log.begunBatches.map(batch => log.entry(batch).head).toSet == Set(s"v$version"))
        // As if the process had died after the batch was logged and before it was committed.
        Files.delete(new File(directory, s"commits/$closing").toPath)
        Files.deleteIfExists(new File(directory, s"commits/.$closing.crc").toPath)
        harness.start().settle()
        assert(harness.changed.isEmpty)
        harness.stop()
        harness.all
      }
    }
    assert(closed(2) == Seq(Emitted("k", Some(1), Seq(7))))
    assert(closed(1) == closed(2))
  }

  private val hour = 60L * 60 * 1000

  private def hadoopConf = spark.sessionState.newHadoopConf()
}
