package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.execution.{InputRDDCodegen, LeafExecNode, SparkPlan}
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.{OneToOneDependency, Partition, SparkContext, TaskContext}

/** Stands for op's argument. Op's plan is made once, with this node in it. To run the plan, the node is
  * replaced: by the rows of a generation, or by the input together with the feedback log.
  *
  * @param id differs for each recursion. A DataFrame that op uses twice is two leaves with one id
  */
final case class RecursionArgument(
    id: Long,
    output: Seq[AttributeReference],
    override val isStreaming: Boolean
) extends LeafNode
    with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))

  // So large that a join never broadcasts this side.
  override def computeStats(): Statistics = Statistics(BigInt(Long.MaxValue))

  override def simpleString(maxFields: Int): String = s"RecursionArgument ${output.mkString("[", ", ", "]")}"
}

private[recursion] object RecursionArgument {

  /** A new column like this one, with nulls allowed: op may give them where the input has none. */
  def columnLike(a: Attribute): AttributeReference =
    AttributeReference(a.name, SparkPlans.nullable(a.dataType), nullable = true, a.metadata)()
}

/** The argument with its rows. */
final case class ArgumentRows(output: Seq[Attribute], rows: RDD[InternalRow]) extends LeafNode {
  override def computeStats(): Statistics = Statistics(BigInt(Long.MaxValue))
}

/** Gives the argument's rows, which are unsafe rows already. */
final case class ArgumentRowsExec(output: Seq[Attribute], inputRDD: RDD[InternalRow])
    extends LeafExecNode
    with InputRDDCodegen {
  override protected val createUnsafeProjection: Boolean = false
  override def nodeName: String = "RecursionArgument"
  override protected def doExecute(): RDD[InternalRow] = inputRDD
}

/** A union whose branches all come from the argument. Its partition i is partition i of each branch, one
  * after the other, so a task has all results of its rows. Spark's union has a partition for each branch.
  */
final case class NarrowUnion(override val output: Seq[Attribute], override val children: Seq[LogicalPlan])
    extends LogicalPlan {

  // Otherwise, the optimizer would prune columns of all branches but the first, because no expression uses them.
  @transient override lazy val references: AttributeSet =
    AttributeSet.fromAttributeSets(children.map(_.outputSet))

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): NarrowUnion =
    copy(children = newChildren)
}

final case class NarrowUnionExec(override val output: Seq[Attribute], override val children: Seq[SparkPlan])
    extends SparkPlan {
  override protected def doExecute(): RDD[InternalRow] = {
    val branches = children.map(_.execute())
    if (branches.map(_.getNumPartitions).distinct.size > 1) sparkContext.union(branches)
    else branches.reduceLeft((left, right) => left.zipPartitions(right)((a, b) => a ++ b))
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[SparkPlan]): NarrowUnionExec =
    copy(children = newChildren)
}

/** The rows of the generation that the task is at. Op's plan is made on this RDD once a micro-batch, and
  * computed once a generation.
  */
private[recursion] final class ArgumentRDD(context: SparkContext, partitions: Int)
    extends RDD[InternalRow](context, Nil) {
  override protected def getPartitions: Array[Partition] = Array.tabulate(partitions)(IndexedPartition)

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    ArgumentRDD.current.rows()
}

private[recursion] final case class IndexedPartition(index: Int) extends Partition

private[recursion] object ArgumentRDD {
  private final case class Generation(hop: Int, rows: () => Iterator[InternalRow])

  // Each task computes its partition in its own thread.
  private val generation = new ThreadLocal[Generation]

  /** Computes something with `rows` as the argument. They are asked for each time that op reads its argument.
    *
    * @param hop the hop of op's results
    */
  def during[T](hop: Int, rows: () => Iterator[InternalRow])(compute: => T): T = {
    val outer = generation.get
    generation.set(Generation(hop, rows))
    try compute
    finally generation.set(outer)
  }

  /** The hop that op is being computed for. */
  def hop: Int = current.hop

  private def current: Generation = {
    val found = generation.get
    require(found != null, "op's argument is read outside of the recursion")
    found
  }

  /** True if each partition of an RDD is computed from the argument's partition of the same number, in one
    * go: then a task can give it its own rows. A cartesian product or a coalesce reads several partitions,
    * and may still have as many.
    */
  def isComputedInPlace(rdd: RDD[_]): Boolean = rdd.isInstanceOf[ArgumentRDD] || rdd.dependencies.forall {
    case same: OneToOneDependency[_] => isComputedInPlace(same.rdd)
    case other => !reads(other.rdd)
  }

  private def reads(rdd: RDD[_]): Boolean =
    rdd.isInstanceOf[ArgumentRDD] || rdd.dependencies.exists(dependency => reads(dependency.rdd))
}
