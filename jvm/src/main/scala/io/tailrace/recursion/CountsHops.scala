package io.tailrace.recursion

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

import io.tailrace.driver.{PartitionAccumulator, ReportExec}

/** An operator whose hops are counted. */
trait CountsHops extends SparkPlan {
  def settings: RecursionSettings
  def mode: RecursionMode

  @transient private[recursion] lazy val counter: PartitionAccumulator[HopCounts] =
    PartitionAccumulator.registered(sparkContext)

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "fedBackRows" -> SQLMetrics.createMetric(sparkContext, "rows fed back"),
    "stoppedRows" -> SQLMetrics.createMetric(sparkContext, "rows stopped by a limit"),
    "cycles" -> SQLMetrics.createMetric(sparkContext, "rows that closed a cycle")
  )

  private[recursion] def hopSink: HopSink = new HopSink(counter, metrics)

  /** Of the batch that has run, however many actions have. */
  def counts: HopCounts = counter.value.values.foldLeft(HopCounts())(_ + _)

  /** With its counts in the query's progress. */
  def reporting: ReportExec = ReportExec(HopReport.name(settings), this) { case r: CountsHops =>
    HopReport.row(r.mode, r.counts)
  }
}

/** Takes what a task has counted, or the driver for it. */
private[recursion] final class HopSink(
    counter: PartitionAccumulator[HopCounts],
    metrics: Map[String, SQLMetric]
) extends Serializable {

  /** @param index of the task's partition, or the driver's */
  def report(index: Int, counts: HopCounts): Unit = {
    counter.add(index -> counts)
    metrics("numOutputRows") += counts.rows
    metrics("fedBackRows") += counts.fedBack
    metrics("stoppedRows") += counts.stopped
    metrics("cycles") += counts.cycles
  }
}
