package io.tailrace.plan

import java.io.File

import org.apache.spark.sql.tailrace.StreamAccess
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Seconds, Span}

import io.tailrace.common.TailraceConf
import io.tailrace.join.JoinMetrics
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Engaged, Served, SlowSuite, SparkSuite, StreamHarness}

/** Spark's own threads do the upkeep of our stores while a query runs, by whatever name this minor version of Spark calls
  * it by. A provider that has another version's name only would keep everything, without a word.
  */
final class UpkeepSuite extends SparkSuite with SlowSuite {
  private val soon = timeout(Span(30, Seconds))
  private val batches = 12

  private def versions(checkpoint: File): Seq[Int] = {
    val files = Option(new File(checkpoint, "state/0").listFiles).toSeq.flatten
      .flatMap(p => Option(p.listFiles))
      .flatten
    files.map(_.getName).filter(_.endsWith(".manifest")).flatMap(_.takeWhile(_.isDigit).toIntOption).distinct
  }

  /** Runs the batches of a join, with Spark's threads at work every 50 ms. Rows wait for `after`. */
  private def upkept(after: String, settings: (String, Any)*)(body: (StreamHarness, File) => Unit): Unit =
    withDirectory { directory =>
      // A store that is opened next begins the upkeep anew, with its own settings.
      StreamAccess.stopStores()
      try
        withConf(
          settings ++ Seq(
            "spark.sql.streaming.stateStore.maintenanceInterval" -> "50ms",
            "spark.sql.streaming.minBatchesToRetain" -> 1
          ): _*
        ) {
          val harness =
            new StreamHarness(spark, directory)(StreamHarness.join(StreamHarness.options(after))).start()
          (1 to batches).foreach { i =>
            harness.step(Seq(Served("k", seconds(i * 10.0), i)), Seq(Engaged("k", seconds(i * 10.0), i)))
          }
          body(harness, directory)
        }
      finally StreamAccess.stopStores()
    }

  test("versions that nobody needs any more are removed") {
    // Rows leave soon: a version's file stays as long as rows in it wait.
    upkept("1 second") { (harness, directory) =>
      assert(versions(directory).contains(harness.batchCount.toInt))
      eventually(soon)(assert(versions(directory).size <= 4))
    }
  }

  test("files of rows that wait for long are merged") {
    // All rows wait.
    upkept("1 day", "spark.sql.shuffle.partitions" -> 1, TailraceConf.CompactionRuns.key -> 4) {
      (harness, _) =>
        def files: Long = {
          harness.step(Seq(Served("k", seconds(0), 99)), Nil)
          harness.progress().customMetrics.get(JoinMetrics.StateFiles)
        }
        eventually(soon)(assert(files <= batches / 2))
    }
  }
}
