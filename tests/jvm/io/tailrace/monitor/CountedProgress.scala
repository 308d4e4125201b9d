package io.tailrace.monitor

import java.sql.Timestamp
import java.time.Instant

import org.apache.spark.sql.functions.{col, window}
import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.sql.tailrace.{QueryStreams, StreamWatermark}

import io.tailrace.testkit.SparkSuite

/** What a query has said of its micro-batches. */
private[monitor] abstract class CountedProgress extends SparkSuite {

  /** Two micro-batches with data of a query of Spark's own, with a late row in the second. */
  protected lazy val progresses: Seq[StreamingQueryProgress] = {
    import spark.implicits._
    implicit val context = spark.sqlContext
    val input = org.apache.spark.sql.execution.streaming.runtime.MemoryStream[Timestamp]
    val counted =
      input.toDF().withWatermark("value", "1 minute").groupBy(window(col("value"), "1 minute")).count()
    withDirectory { root =>
      val writer = counted.writeStream.option("checkpointLocation", root.getPath).queryName("counted")
      val query = writer.format("noop").start()
      def add(times: String*): Unit = {
        input.addData(times.map(time => Timestamp.from(Instant.parse(s"2026-01-01T$time:00Z"))))
        query.processAllAvailable()
      }
      try {
        add("12:00", "12:10")
        add("12:01", "12:20")
      } finally query.stop()
      // Before the first batch there is a progress that listeners don't get.
      query.recentProgress.toSeq.filter(_.stateOperators.nonEmpty)
    }
  }

  protected def add(
      series: QuerySeries,
      progress: StreamingQueryProgress,
      streams: Seq[StreamWatermark] = Nil
  ): Unit = series.add(progress, ProgressValues.of(progress, streams), QueryStreams(streams))

  protected def add(history: ProgressHistory, progress: StreamingQueryProgress): Unit =
    history.add(progress, ProgressValues.of(progress, Nil).values.flatten.toSeq)
}
