package io.tailrace.recursion

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types._

import io.tailrace.common.ProgressName
import io.tailrace.driver.{PartitionAccumulator, ReportExec}

/** Counts as they stand in the query's progress. */
object HopReport {

  /** A progress is read by people. */
  private val Named = 100

  private val HopSchema =
    new StructType().add("hop", IntegerType).add("rows", LongType).add("ms", DoubleType)

  val Schema: StructType = new StructType()
    .add("mode", StringType)
    .add("rows", LongType)
    .add("fedBack", LongType)
    .add("deepest", IntegerType)
    .add("stopped", LongType)
    .add("cycles", LongType)
    .add("hops", ArrayType(HopSchema))

  /** The name of a recursion's counts in `observedMetrics`. */
  def name(settings: RecursionSettings): String =
    ProgressName("recursion", settings.name, RecursionOptions.Name)

  def row(mode: RecursionMode, counts: HopCounts): Row = {
    val hops = counts.hops.take(Math.min(Named, counts.deepest)).zipWithIndex.map { case (hop, i) =>
      new GenericRowWithSchema(Array(i + 1, hop.rows, hop.nanos / 1e6), HopSchema)
    }
    new GenericRowWithSchema(
      Array(
        mode.name,
        counts.rows,
        counts.fedBack,
        counts.deepest,
        counts.stopped,
        counts.cycles,
        hops
      ),
      Schema
    )
  }
}

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

  /** The counts of the micro-batch that has run, however many actions it had. */
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
