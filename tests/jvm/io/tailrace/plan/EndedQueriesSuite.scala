package io.tailrace.plan

import java.io.File

import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.tailrace.MemoryStream
import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Seconds, Span}

import io.tailrace.driver.DriverRuns
import io.tailrace.replay.MarkCache
import io.tailrace.testkit.{HostQueries, SlowSuite, SparkSuite}

/** A driver may run thousands of short queries. */
final class EndedQueriesSuite extends SparkSuite with SlowSuite {
  import HostQueries.Arrived
  import spark.implicits._

  private val soon = timeout(Span(20, Seconds))

  private def source(rows: Seq[Arrived]): DataFrame = {
    val stream = MemoryStream[Arrived](spark)
    stream.addData(rows)
    stream.toDF()
  }

  DamagedQueries.all.foreach { query =>
    test(s"the driver keeps nothing of a query that has ended: ${query.name}") {
      val tables = MarkCache.size
      (1 to 2).foreach { _ =>
        withDirectory { directory =>
          @volatile var most = 0
          val first = query.batches.head
          val rows = query.build(source(first.served), source(first.logs))
          val writer =
            if (query.lands) query.landing(rows, directory)
            else
              rows.writeStream.foreachBatch { (rows: Dataset[Row], _: Long) =>
                rows.collect(): Unit
                most = DriverRuns.states
              }
          val running = writer
            .option("checkpointLocation", new File(directory, "checkpoint").getPath)
            .trigger(Trigger.AvailableNow)
            .start()
          running.awaitTermination()
          assert(running.recentProgress.map(_.numInputRows).sum > 0)
          assert(query.lands || most > 0)
          eventually(soon)(assert(DriverRuns.states == 0 && MarkCache.size == tables))
        }
      }
    }
  }
}
