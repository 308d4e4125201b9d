package io.tailrace.replay

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.NamedExpression
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}

import io.tailrace.common.ProgressName

/** Shows a filter's counts where a user looks for them: in the progress of the query, `observedMetrics`, for which Spark
  * asks its own operator of `Dataset.observe`. Rows go through untouched.
  */
final class ObservedReplays(observed: String, expressions: Seq[NamedExpression], filter: SparkPlan)
    extends CollectMetricsExec(observed, expressions, filter) {

  override def collectedMetrics: Row =
    child.collectFirst { case f: ReplayFilterExec => f.counts }.getOrElse(ReplayCounts()).toRow

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  // The parent's would reset an accumulator that nobody has registered.
  override def resetMetrics(): Unit = children.foreach(_.resetMetrics())

  override protected def withNewChildInternal(newChild: SparkPlan): ObservedReplays =
    new ObservedReplays(observed, expressions, newChild)
}

object ObservedReplays {

  /** What a filter's counts are called in `observedMetrics`. */
  def name(settings: ReplaySettings): String = ProgressName("replays", settings.name, ReplayOptions.Name)

  def apply(filter: ReplayFilterExec): ObservedReplays =
    new ObservedReplays(name(filter.settings), Nil, filter)
}
