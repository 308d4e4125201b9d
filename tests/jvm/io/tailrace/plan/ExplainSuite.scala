package io.tailrace.plan

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.{ExtendedMode, SimpleMode}

import io.tailrace.api.Tailrace
import io.tailrace.label.JoinOptions
import io.tailrace.recursion.RecursionOptions
import io.tailrace.replay.ReplayOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.testkit.SparkSuite
import io.tailrace.watermark.WatermarkOptions

/** `explain()` and `explain("extended")` of all that Tailrace adds, without a query. */
final class ExplainSuite extends SparkSuite {
  private def rows: DataFrame = spark.readStream
    .format("rate")
    .load()
    .selectExpr("value AS id", "value", "timestamp AS at", "'h' AS host", "0 AS partition")

  private val on = Seq("id" -> "id")

  private def watermarked: DataFrame =
    Tailrace.accurateWatermark(rows, "at", "host", WatermarkOptions(name = "hosts"))

  private val frames: Seq[(String, String, () => DataFrame)] = Seq(
    (
      "join",
      "TailraceLabelJoin",
      () => {
        def side = rows.withWatermark("at", "1 second")
        Tailrace.join(side, side, on, JoinOptions("at", "at", after = "1 minute"))
      }
    ),
    (
      "sync_join",
      "TailraceSyncJoin",
      () => Tailrace.syncJoin(rows, rows, on, SyncOptions("at", "at", "1 minute", "5 seconds"))
    ),
    ("accurate_watermark", "LowWatermark", () => watermarked),
    ("stamp_watermark", "StampWatermark", () => Tailrace.stampWatermark(watermarked)),
    (
      "stamped_watermark",
      "LowWatermark",
      () =>
        Tailrace.stampedWatermark(
          rows.selectExpr("*", "cast(null AS binary) AS watermark"),
          "at",
          "watermark",
          Seq("partition"),
          WatermarkOptions(name = "stamps")
        )
    ),
    (
      "filter_replays",
      "ReplayFilter",
      () =>
        Tailrace.filterReplays(
          rows.selectExpr("cast(host AS binary) AS key", "'t' AS topic", "partition", "id AS offset"),
          ReplayOptions()
        )
    ),
    (
      "recursively, within a micro-batch",
      "Fixpoint",
      () =>
        Tailrace.recursively(rows.select("id"), RecursionOptions())(
          _.selectExpr("id - 1 AS id").where("id > 0")
        )
    ),
    (
      "recursively, by a log",
      "Feedback",
      () =>
        Tailrace.recursively(rows.select("id"), RecursionOptions(mode = "feedback"))(
          _.selectExpr("id - 1 AS id").where("id > 0")
        )
    )
  )

  frames.foreach { case (name, node, frame) =>
    test(s"the plan of $name is explained before there is a query") {
      val plan = frame().asInstanceOf[org.apache.spark.sql.classic.Dataset[_]].queryExecution
      Seq(SimpleMode, ExtendedMode).foreach { mode =>
        val text = plan.explainString(mode)
        assert(text.contains(node), mode)
      }
    }
  }
}
