package io.tailrace.watermark

import java.io.File

import org.apache.spark.sql.functions._
import org.apache.spark.sql.tailrace.RunClock
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.testkit.LoggedStream.at
import io.tailrace.testkit.{LoggedStream, SparkSuite}

/** Queries with the watermark of hosts, over logs whose batches the test decides. */
abstract class HostsWatermarkSuite extends SparkSuite {
  protected def watermark(options: WatermarkOptions)(logs: DataFrame): DataFrame =
    Tailrace.accurateWatermark(logs, "at", "host", options)

  protected val whole = WatermarkOptions(completeness = "100%", hosts = Some(Seq("a", "b")))

  protected def counts(logs: DataFrame): DataFrame =
    logs.groupBy(window(col("at"), "10 seconds")).count().select("window.start", "count")

  protected def counting(
      directory: File,
      options: WatermarkOptions,
      flat: Boolean = false,
      clock: Option[RunClock] = None
  ): LoggedStream =
    new LoggedStream(spark, directory, clock = clock)({ in =>
      val logs = watermark(options)(in.head)
      if (flat) logs else counts(logs)
    }).start()

  protected def window(start: Double, count: Long): Row = Row(at(start), count)
  protected def window(column: org.apache.spark.sql.Column, length: String) =
    org.apache.spark.sql.functions.window(column, length)
}
