package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.NamedExpression
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}

import io.tailrace.driver.PartitionAccumulator

/** An operator whose hops are counted. */
trait CountsHops extends SparkPlan {
  def settings: RecursionSettings
  def mode: RecursionMode

  @transient private[recursion] lazy val counter: PartitionAccumulator[HopCounts] = {
    val made = new PartitionAccumulator[HopCounts]
    sparkContext.register(made)
    made
  }

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "fedBackRows" -> SQLMetrics.createMetric(sparkContext, "rows fed back"),
    "stoppedRows" -> SQLMetrics.createMetric(sparkContext, "rows stopped by a limit"),
    "cycles" -> SQLMetrics.createMetric(sparkContext, "rows that closed a cycle")
  )

  private[recursion] def hopSink: HopSink = new HopSink(counter, metrics)

  /** Of the batch that has run, however many actions have. */
  def counts: HopCounts = counter.value.values.foldLeft(HopCounts())(_ + _)
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

/** Shows a recursion's counts in the progress of the query, `observedMetrics`, for which Spark asks its own operator of
  * `Dataset.observe`. Rows go through untouched.
  */
final class ObservedRecursion(observed: String, expressions: Seq[NamedExpression], recursion: SparkPlan)
    extends CollectMetricsExec(observed, expressions, recursion) {

  override def collectedMetrics: Row =
    child.collectFirst { case r: CountsHops => HopReport.row(r.mode, r.counts) }.get

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  // The parent's would reset an accumulator that nobody has registered.
  override def resetMetrics(): Unit = children.foreach(_.resetMetrics())

  override protected def withNewChildInternal(newChild: SparkPlan): ObservedRecursion =
    new ObservedRecursion(observed, expressions, newChild)
}

object ObservedRecursion {
  def apply(recursion: CountsHops): ObservedRecursion =
    new ObservedRecursion(HopReport.name(recursion.settings), Nil, recursion)
}
