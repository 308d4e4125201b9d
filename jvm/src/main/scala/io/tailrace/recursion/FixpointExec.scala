package io.tailrace.recursion

import java.util.concurrent.ThreadLocalRandom

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.{SparkPlans, StreamingBatch}
import org.apache.spark.{OneToOneDependency, Partition, SparkContext, TaskContext}

import io.tailrace.common.{TailraceConf, UnsafeRows}

/** Applies op to its input, and to what comes of it, until nothing comes any more, within the micro-batch.
  *
  * {{{
  *   op needs no exchange of its argument:  FixpointRDD, all hops in the task that has the row, one job
  *   op exchanges it (a join of two large tables, repartition):  ShuffledFixpoint, a job a hop
  * }}}
  *
  * @param argument which leaves of `body` stand for op's argument
  * @param body     op's plan; not a child, for it isn't run beside the input but on it
  * @param columns  of the rows that go round
  * @param results  the columns that come out; behind those of `columns` the hop, if it was asked for
  * @param clock    the time of the query, a literal
  * @param sizes    of op's tables
  * @param streaming whether it runs in micro-batches
  */
final case class FixpointExec(
    argument: Long,
    @transient body: LogicalPlan,
    settings: RecursionSettings,
    columns: RoundColumns,
    results: Seq[Attribute],
    clock: Expression,
    @transient sizes: TableSizes,
    streaming: Boolean,
    child: SparkPlan
) extends UnaryExecNode
    with CountsHops {
  override def output: Seq[Attribute] = results
  override def producedAttributes: AttributeSet = AttributeSet(results)
  override def innerChildren: Seq[QueryPlan[_]] = Seq(body)
  override def mode: RecursionMode = RecursionMode.Fixpoint

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val types = child.output
    val input = rows.mapPartitions(_.map(new UnsafeRows(types)): Iterator[InternalRow])
    val batch = if (streaming) Some(StreamingBatch.current(session)) else None
    val op = new RecursionBody(
      session,
      argument,
      body,
      clockMicros,
      // As Spark does it for what is in the query's own plan: other values in each micro-batch.
      batch.map(_ => ThreadLocalRandom.current.nextLong()),
      TailraceConf.RecursionBroadcastBytes.read(SparkPlans.setting(session, _)),
      sizes
    )
    val rules = new FixpointRules(
      settings,
      columns,
      addsDepth = results.size > columns.all.size,
      conf.sessionLocalTimeZone,
      hopSink
    )
    val planned = op.inTasks(new ArgumentRDD(sparkContext, input.getNumPartitions))
    if (planned.isNarrow)
      new FixpointRDD(input, planned.rows, op.reads, rules)
    else {
      val most = Math.max(input.getNumPartitions, conf.numShufflePartitions)
      new ShuffledFixpoint(op, rules, new KeptHop(keep(batch), most)).run(input)
    }
  }

  private def clockMicros: Long = clock.eval() match {
    case micros: Long => micros
    case other => throw new IllegalStateException(s"the time of a query is $other")
  }

  /** In a batch frame, until nobody refers to them any more: Spark's cleaner sees to that. */
  private def keep(batch: Option[StreamingBatch]): RDD[InternalRow] => RDD[InternalRow] =
    batch.fold((rows: RDD[InternalRow]) => rows.persist(ShuffledFixpoint.Storage): RDD[InternalRow])(b =>
      KeptRows.of(session, settings.name).keep(b.batchId)
    )

  override protected def stringArgs: Iterator[Any] =
    Iterator(s"name=${settings.name}", s"mode=${mode.name}", results)

  override protected def withNewChildInternal(newChild: SparkPlan): FixpointExec = copy(child = newChild)
}

/** The recursion of each task's own rows, with no job and no exchange for a hop: op's RDD is computed again for each
  * generation, on the rows of the one before.
  *
  * @param op on an [[ArgumentRDD]]; as many partitions as the input
  */
private[recursion] final class FixpointRDD(
    private var input: RDD[InternalRow],
    private var op: RDD[InternalRow],
    reads: Int,
    rules: FixpointRules
) extends RDD[InternalRow](
      input.sparkContext,
      Seq(new OneToOneDependency(input), new OneToOneDependency(op))
    ) {

  override protected def getPartitions: Array[Partition] =
    input.partitions.zip(op.partitions).map { case (i, o) => FixpointPartition(i.index, i, o) }

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val partition = split.asInstanceOf[FixpointPartition]
    val body = op
    new Generations(
      split.index,
      input.iterator(partition.input, context),
      (hop, rows) => ArgumentRDD.during(hop, rows)(body.iterator(partition.op, context)),
      reads,
      rules,
      context
    )
  }

  override def clearDependencies(): Unit = {
    super.clearDependencies()
    input = null
    op = null
  }
}

private[recursion] final case class FixpointPartition(index: Int, input: Partition, op: Partition)
    extends Partition

/** The rows of the generation that the task is at. Op's plan is made on this once a micro-batch, and computed once a
  * generation.
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

  // A task computes its partitions in its own thread, and others at the same time in theirs.
  private val generation = new ThreadLocal[Generation]

  /** Computes something with `rows` for the argument: they are asked for once for each time that op reads it.
    *
    * @param hop that op's results will be of
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

  /** Whether each partition of an RDD is computed of the argument's partition of the same number, and at once: then a task can
    * give it its own rows. A cartesian product or a coalesce has partitions of several, and may have as many in the end.
    */
  def isComputedInPlace(rdd: RDD[_]): Boolean = rdd.isInstanceOf[ArgumentRDD] || rdd.dependencies.forall {
    case same: OneToOneDependency[_] => isComputedInPlace(same.rdd)
    case other => !reads(other.rdd)
  }

  private def reads(rdd: RDD[_]): Boolean =
    rdd.isInstanceOf[ArgumentRDD] || rdd.dependencies.exists(dependency => reads(dependency.rdd))
}
