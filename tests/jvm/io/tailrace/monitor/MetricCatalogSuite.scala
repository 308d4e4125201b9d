package io.tailrace.monitor

import org.apache.spark.sql.types._
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.asof.AsOfMetrics
import io.tailrace.examples.CountedNames
import io.tailrace.join.JoinMetrics
import io.tailrace.label.{LabelMetrics, LabelStreams}
import io.tailrace.recursion.HopReport
import io.tailrace.replay.ReplayCounts
import io.tailrace.sync.{SyncMetrics, SyncReport}
import io.tailrace.watermark.SourceWatermark
import io.tailrace.windows.LandingReport

/** What an operator reports and the catalog doesn't have would be seen by nobody. */
final class MetricCatalogSuite extends AnyFunSuite {
  private def fields(of: String): Seq[String] = MetricCatalog.group(of).metrics.map(_.field).sorted

  test("each metric of a join is in the catalog, and no other") {
    // Each join has its own text for what it keeps about joined rows.
    val shared = (JoinMetrics.names :+ JoinMetrics.JoinedStoreBytes).sorted
    assert(fields("joins") == shared)
    assert(fields("tailraceLabelJoin") == LabelMetrics.names.diff(shared).sorted)
    assert(fields("tailraceAsOf") == AsOfMetrics.names.diff(shared).sorted)
    assert(fields("tailraceSyncJoin") == SyncMetrics.names.diff(shared).sorted)
  }

  /** The numbers and times of a row, and those of the elements of its lists. */
  private def numbers(schema: StructType): Seq[(String, Seq[String])] = schema.fields.toSeq.flatMap { field =>
    field.dataType match {
      case ArrayType(element: StructType, _) =>
        element.fieldNames.toSeq.map(f => s"${field.name}.$f" -> Seq(f))
      case StringType => Nil
      case _ => Seq(field.name -> Nil)
    }
  }

  Seq(
    "tailrace.syncJoin" -> SyncReport.Schema,
    "tailrace.watermark" -> SourceWatermark.MetricsSchema,
    "tailrace.windows" -> LandingReport.Schema,
    "tailrace.replays" -> ReplayCounts.Schema,
    "tailrace.recursion" -> HopReport.Schema,
    "tailrace.examples" -> CountedNames.WithOrphans,
    "tailrace.labels" -> LabelStreams.Schema
  ).foreach { case (of, schema) =>
    test(s"each number of $of is in the catalog, or is a label of one") {
      val group = MetricCatalog.group(of)
      val found = numbers(schema)
      val labels =
        group.metrics.flatMap(metric => metric.labels.map(metric.field.takeWhile(_ != '.') + "." + _))
      assert(found.map(_._1).toSet == fields(of).toSet ++ labels)
    }
  }

  test("series have names of their own, by Prometheus' rules") {
    val all = MetricCatalog.groups.flatMap(_.metrics)
    assert(all.map(_.series).distinct.size == all.size)
    all.foreach { metric =>
      assert(metric.series.matches("tailrace_[a-z_]+"), metric)
      assert(Set("count", "level")(metric.kind), metric)
      assert(metric.series.endsWith("_total") == metric.isCount, metric)
      assert(
        (metric.scale != 1) == metric.series.contains("_seconds") || metric.field.matches(
          "(.*\\.)?(timestamp|watermark|syncTime|leftLow|latest|lowWatermark|progress|closedThrough)"
        ),
        metric
      )
    }
  }
}
