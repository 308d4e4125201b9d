package io.tailrace.recursion

import java.util.concurrent.ConcurrentHashMap
import java.util.{Locale, UUID}

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeReference,
  AttributeSet,
  CurrentTimestamp,
  Expression
}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.{InputRDDCodegen, LeafExecNode, LogicalRDD, SparkPlan}
import org.apache.spark.sql.tailrace.{QueryStart, SparkPlans}
import org.apache.spark.sql.types.StructType
import org.apache.spark.{OneToOneDependency, Partition, SparkContext, TaskContext}

import io.tailrace.common.UnsafeRows
import io.tailrace.plan.{TailraceNode, WriteCheck}

/** `tailrace.recursively`, resolved. */
sealed trait Recursion extends UnaryNode with TailraceNode {
  override def operator: String = "tailrace.recursively"
  // The log's source checks on its own.
  override def keepsBatches: Boolean = false
  override def reorders: Option[String] = Some("a recursion")
  override def writeChecks: Seq[WriteCheck] = Seq(RecursionWriteCheck)

  def settings: RecursionSettings
}

/** A recursion whose hops are all made in the micro-batch that brought the row. See [[FixpointExec]].
  *
  * @param body  op's plan; not a child, because rules for the query's plan must not change it
  * @param clock the query's time, for op. It is here, so Spark's rules make a literal of it
  * @param sizes the sizes of op's tables that have been measured
  */
case class Fixpoint(
    argument: Long,
    body: LogicalPlan,
    settings: RecursionSettings,
    columns: RoundColumns,
    results: Seq[Attribute],
    child: LogicalPlan,
    clock: Expression = CurrentTimestamp(),
    sizes: TableSizes = new TableSizes
) extends Recursion
    with SupportsNonDeterministicExpression {

  // The clock is an expression without a fixed value until it is a literal.
  override def allowNonDeterministicExpression: Boolean = true

  override def output: Seq[Attribute] = results
  override def producedAttributes: AttributeSet = AttributeSet(results)
  override def innerChildren: Seq[QueryPlan[_]] = Seq(body)

  // Each row of the input is op's argument with all its columns.
  @transient override lazy val references: AttributeSet = AttributeSet(child.output)

  /** Spark sees children and expressions of the plan only. A plan of Spark Connect is made again each time, with other
    * ids in op's plan: without this, cached data wouldn't be found again.
    */
  override protected def doCanonicalize(): LogicalPlan = {
    val op = body.canonicalized
    super.doCanonicalize() match {
      case same: Fixpoint =>
        same.copy(body = op, columns = columns.copy(all = op.output), sizes = Fixpoint.NoSizes)
      case other => other
    }
  }

  override protected def withNewChildInternal(newChild: LogicalPlan): Fixpoint = copy(child = newChild)
}

private object Fixpoint {
  private val NoSizes = new TableSizes
}

/** A recursion with one iteration per micro-batch. Op's results are written here, and [[FeedbackRows]] reads
  * them in the next micro-batch. See [[FeedbackTapExec]].
  */
case class FeedbackTap(
    settings: RecursionSettings,
    columns: RoundColumns,
    times: Seq[Int],
    written: StructType,
    child: LogicalPlan
) extends Recursion {
  override def output: Seq[Attribute] = child.output

  // Otherwise Spark would prune columns that only op needs.
  @transient override lazy val references: AttributeSet = AttributeSet(child.output)

  override protected def withNewChildInternal(newChild: LogicalPlan): FeedbackTap = copy(child = newChild)
}

/** The rows that are fed back. If they have an event time, Spark's watermark node is above, with the same
  * `nodeId`: it holds back the watermark.
  */
case class FeedbackRows(nodeId: UUID, recursion: String, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  @transient override lazy val references: AttributeSet = AttributeSet(child.output)

  override protected def withNewChildInternal(newChild: LogicalPlan): FeedbackRows = copy(child = newChild)
}

/** Refuses a recursion that can't work in the streaming query that is being started. */
private[recursion] object RecursionWriteCheck extends WriteCheck {
  override def apply(start: QueryStart): Unit = {
    // A DataFrame that is used twice is one recursion.
    val recursions = start.plan.collect { case r: Recursion => r }.distinct
    WriteCheck.unique("tailrace.recursively", recursions.map(_.settings.name))
    recursions.find(!start.appends && aggregates(_)).foreach { recursion =>
      throw RecursionErrors.revisions(recursion.settings.name, start.outputMode.toLowerCase(Locale.ROOT))
    }
    val taps = recursions.collect { case tap: FeedbackTap => tap }
    taps.find(_.times.nonEmpty && start.followsLatestWatermark).foreach { tap =>
      throw RecursionErrors.watermarkPolicy(tap.settings.name)
    }
    start.checkpoint.foreach(FeedbackLog.check(_, start.hadoopConf, taps.map(_.settings.name)))
  }

  private def aggregates(recursion: Recursion): Boolean = recursion.exists {
    case aggregate: Aggregate => aggregate.isStreaming
    case distinct: Distinct => distinct.isStreaming
    case _ => false
  }
}

/** The measured sizes of op's tables, over all micro-batches of a recursion. It keeps those of tables that
  * can't change, such as rows in memory that `createDataFrame` has made a table of.
  */
private[tailrace] final class TableSizes {
  private val known = new ConcurrentHashMap[LogicalPlan, java.lang.Long]

  def of(table: LogicalPlan)(measure: => Long): Long =
    if (!table.collectLeaves().forall(TableSizes.isFixed) || !table.deterministic) measure
    else {
      val key = table.canonicalized
      val bytes = Option(known.get(key)).fold(measure)(_.longValue)
      known.put(key, bytes)
      bytes
    }
}

private[recursion] object TableSizes {
  private def isFixed(leaf: LogicalPlan): Boolean = leaf match {
    case _: LogicalRDD | _: LocalRelation | _: Range => true
    case _ => false
  }

  /** The bytes of a table's rows. Each task stops when it has counted more than `enough`. */
  def measured(rows: RDD[InternalRow], columns: Seq[Attribute], enough: Long): Long = {
    def bytesOf(part: Iterator[InternalRow]): Long = {
      val toUnsafe = new UnsafeRows(columns)
      var bytes = 0L
      while (bytes <= enough && part.hasNext) bytes += toUnsafe(part.next()).getSizeInBytes
      bytes
    }
    rows.sparkContext.runJob(rows, (_: TaskContext, part: Iterator[InternalRow]) => bytesOf(part)).sum
  }
}

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
