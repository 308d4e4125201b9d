package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Union}
import org.apache.spark.sql.execution.SparkPlan

/** A union of branches that all come from the argument: partition i of each, one after the other, are partition i of the
  * union, so that a task has all that comes of its rows. Spark's union would have a partition for each branch.
  */
final case class NarrowUnion(
    override val output: Seq[Attribute],
    override val children: Seq[LogicalPlan]
) extends LogicalPlan {

  // Without this the optimizer would prune the columns of all sides but the first: no expression mentions them.
  @transient override lazy val references: AttributeSet =
    AttributeSet.fromAttributeSets(children.map(_.outputSet))

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): NarrowUnion =
    copy(children = newChildren)
}

private[recursion] object NarrowUnion {
  def apply(union: Union): NarrowUnion = NarrowUnion(union.output, union.children)
}

final case class NarrowUnionExec(
    override val output: Seq[Attribute],
    override val children: Seq[SparkPlan]
) extends SparkPlan {
  override protected def doExecute(): RDD[InternalRow] = {
    val branches = children.map(_.execute())
    if (branches.map(_.getNumPartitions).distinct.size > 1) sparkContext.union(branches)
    else branches.reduceLeft((left, right) => left.zipPartitions(right)((a, b) => a ++ b))
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[SparkPlan]): NarrowUnionExec =
    copy(children = newChildren)
}
