package io.tailrace.join

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.types.MetadataBuilder

/** Of the columns of a join's side one is its event time. Others may be marked as one, in the pairs of another join for
  * instance. Behind this join they aren't any more: the watermark that it passes on is about the rows' own time, and a row
  * may be older by another. Spark refuses two such columns in the input of a join.
  */
object OneEventTime {
  private val key = EventTimeWatermark.delayKey

  def of(columns: Seq[Attribute], time: Attribute): Seq[Attribute] =
    columns.map(a => if (a.exprId == time.exprId) a else unmarked(a))

  def unmarked(column: Attribute): Attribute =
    if (!column.metadata.contains(key)) column
    else column.withMetadata(new MetadataBuilder().withMetadata(column.metadata).remove(key).build())
}

/** The same rows with one event time. A projection would do no more, but Spark's optimizer takes one for needless. */
final case class OneEventTimeExec(time: Attribute, child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = OneEventTime.of(child.output, time)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(newChild: SparkPlan): OneEventTimeExec = copy(child = newChild)
}

object OneEventTimeExec {

  /** A side of a streaming join. */
  def side(plan: SparkPlan, time: Attribute): SparkPlan =
    if (plan.output.count(_.metadata.contains(EventTimeWatermark.delayKey)) > 1) OneEventTimeExec(time, plan)
    else plan
}
