package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics, Union}
import org.apache.spark.sql.execution.{InputRDDCodegen, LeafExecNode, SparkPlan}

/** Stands for op's argument. Op's plan is made once with this node in it. To run the plan, something else takes its place:
  * rows of a generation in a task, or the input together with the feedback log.
  *
  * @param id tells recursions apart; a frame that op uses twice is in the plan twice, each with columns of its own
  */
final case class RecursionArgument(
    id: Long,
    output: Seq[AttributeReference],
    override val isStreaming: Boolean
) extends LeafNode
    with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))

  // So that a join never broadcasts this side of it.
  override def computeStats(): Statistics = Statistics(BigInt(Long.MaxValue))

  override def simpleString(maxFields: Int): String = s"RecursionArgument ${output.mkString("[", ", ", "]")}"
}

/** The argument, with rows in it. */
final case class ArgumentRows(output: Seq[Attribute], rows: RDD[InternalRow]) extends LeafNode {
  override def computeStats(): Statistics = Statistics(BigInt(Long.MaxValue))
}

/** Rows are unsafe rows already. */
final case class ArgumentRowsExec(output: Seq[Attribute], inputRDD: RDD[InternalRow])
    extends LeafExecNode
    with InputRDDCodegen {
  override protected val createUnsafeProjection: Boolean = false
  override def nodeName: String = "RecursionArgument"
  override protected def doExecute(): RDD[InternalRow] = inputRDD
}

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
