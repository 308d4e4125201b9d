package io.tailrace.plan

import java.io.File

import org.apache.spark.sql.tailrace.StreamAccess
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Seconds, Span}

import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Served, SparkSuite, StreamHarness}

/** Spark's own threads do the upkeep of our stores while a query runs, by whatever name this minor version of Spark calls
  * it by. A provider that has another version's name only would keep everything, without a word.
  */
final class UpkeepSuite extends SparkSuite {
  private val soon = timeout(Span(20, Seconds))
  private val batches = 12

  private def versions(checkpoint: File): Seq[Int] = {
    val files = Option(new File(checkpoint, "state/0").listFiles).toSeq.flatten.flatMap(p => Option(p.listFiles)).flatten
    files.map(_.getName).filter(_.endsWith(".manifest")).flatMap(_.takeWhile(_.isDigit).toIntOption).distinct
  }

  /** What Spark begins anew when a store is opened next. */
  private def restartUpkeep(): Unit = StreamAccess.stopStores()

  test("versions that nobody needs any more are removed") {
    withDirectory { directory =>
      restartUpkeep()
      try
        withConf(
          "spark.sql.streaming.stateStore.maintenanceInterval" -> "50ms",
          "spark.sql.streaming.minBatchesToRetain" -> 1
        ) {
          val harness =
            new StreamHarness(spark, directory)(StreamHarness.join(StreamHarness.options("1 second"))).start()
          // Rows leave soon: a version's file stays as long as rows in it wait.
          (1 to batches).foreach(i => harness.left(Served("k", seconds(i.toDouble), i)))
          assert(versions(directory).contains(harness.batchCount.toInt))
          eventually(soon)(assert(versions(directory).size <= 4))
        }
      finally restartUpkeep()
    }
  }
}
