package io.tailrace.recursion

import java.util.concurrent.ThreadLocalRandom

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{ExternalAppendOnlyUnsafeRowArray, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.{SparkPlans, SparkState, StreamingBatch}
import org.apache.spark.{OneToOneDependency, Partition, TaskContext}

import io.tailrace.common.{StepwiseRows, TailraceConf, UnsafeRows}

/** Applies op to its input, and to op's results again until there are none, within the micro-batch.
  *
  * {{{
  *   op needs no exchange of its argument:  FixpointRDD, all hops in the task that has the row, one job
  *   op exchanges it (a join of two large tables, repartition):  ShuffledFixpoint, one job per iteration
  * }}}
  *
  * @param argument  the id of the leaves of `body` that stand for op's argument
  * @param body      op's plan; not a child, because Spark must not run it beside the input
  * @param columns   the columns of the rows that go round
  * @param results   the columns that are emitted: those of `columns`, then the hop, if the user wants it
  * @param clock     the time of the query, a literal
  * @param sizes     the sizes of op's tables
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
    val batch = Option.when(streaming)(StreamingBatch.current(session))
    val now = clock.eval() match {
      case micros: Long => micros
      case other => throw new IllegalStateException(s"the time of a query is $other")
    }
    // Other random values in each micro-batch, as Spark has it for the query's own plan.
    val seed = batch.map(_ => ThreadLocalRandom.current.nextLong())
    val broadcastBytes = TailraceConf.RecursionBroadcastBytes.read(SparkPlans.setting(session, _))
    val op = new RecursionBody(session, new OpRules(argument), body, now, seed, broadcastBytes, sizes)
    val addsDepth = results.size > columns.all.size
    val rules = new RecursionRules(settings, columns, addsDepth, conf.sessionLocalTimeZone, hopSink)
    val planned = op.inTasks(new ArgumentRDD(sparkContext, input.getNumPartitions))
    if (planned.isNarrow) new FixpointRDD(input, planned.rows, op.reads, rules)
    else {
      val most = Math.max(input.getNumPartitions, conf.numShufflePartitions)
      new ShuffledFixpoint(op, rules, new KeptHop(keep(batch), most)).run(input)
    }
  }

  /** Without micro-batches Spark's cleaner frees the rows when nobody refers to them any more. */
  private def keep(batch: Option[StreamingBatch]): RDD[InternalRow] => RDD[InternalRow] = batch match {
    case Some(b) => KeptRows.of(session, settings.name).keep(b.batchId)
    case None => _.persist(ShuffledFixpoint.Storage)
  }

  override protected def stringArgs: Iterator[Any] =
    Iterator(s"name=${settings.name}", s"mode=${mode.name}", results)

  override protected def withNewChildInternal(newChild: SparkPlan): FixpointExec = copy(child = newChild)
}

/** The recursion of each task's own rows, without a job or an exchange for a hop. Op's RDD is computed again
  * for each generation, on the rows of the generation before.
  *
  * @param op an RDD on an [[ArgumentRDD]], with as many partitions as the input
  */
private[recursion] final class FixpointRDD(
    private var input: RDD[InternalRow],
    private var op: RDD[InternalRow],
    reads: Int,
    rules: RecursionRules
) extends RDD[InternalRow](
      input.sparkContext,
      Seq(new OneToOneDependency(input), new OneToOneDependency(op))
    ) {

  override protected def getPartitions: Array[Partition] =
    input.partitions.zip(op.partitions).map { case (i, o) => FixpointPartition(i.index, i, o) }

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val partition = split.asInstanceOf[FixpointPartition]
    val body = op
    def applied(hop: Int, rows: () => Iterator[InternalRow]) =
      ArgumentRDD.during(hop, rows)(body.iterator(partition.op, context))
    new Generations(split.index, input.iterator(partition.input, context), applied, reads, rules, context)
  }

  override def clearDependencies(): Unit = {
    super.clearDependencies()
    input = null
    op = null
  }
}

private[recursion] final case class FixpointPartition(index: Int, input: Partition, op: Partition)
    extends Partition

/** One task's recursion: generation after generation, until one is empty. A row is emitted as soon as op gives
  * it, and is kept for the next generation, in memory or on disk.
  *
  * {{{
  *   input ──> op ──> hop 1 ──> op ──> hop 2 ──> op ──> nothing
  *                      └─> out          └─> out
  * }}}
  *
  * @param index the task's partition in this operator
  * @param op    computes the results of rows, for a hop
  * @param reads how often op reads its argument
  */
private[recursion] final class Generations(
    index: Int,
    input: Iterator[InternalRow],
    op: (Int, () => Iterator[InternalRow]) => Iterator[InternalRow],
    reads: Int,
    rules: RecursionRules,
    context: TaskContext
) extends StepwiseRows[InternalRow] {
  private val judge = new RowJudge(rules.settings)
  private val toUnsafe = rules.toUnsafe()
  private val withDepth = rules.withDepth()
  private val sample = rules.sample()
  private val watch = new RunawayWatch(rules.settings)

  private var depth = 0
  private var current: ExternalAppendOnlyUnsafeRowArray = _
  private var upcoming = Generations.rows()
  private var argument = Iterator.empty[InternalRow]
  private var results = Iterator.empty[InternalRow]

  private var startedNanos = 0L
  private var rowsBefore = 0L
  private var fedBack = 0L
  private var fedBackBefore = 0L
  private var argumentRows = 0L
  private var seen = 0L
  private val hops = Vector.newBuilder[Hop]

  begin()

  private def begin(): Unit = {
    // A loop that never ends ends here, when its query is stopped.
    SparkState.endIfCancelled(context)
    depth += 1
    startedNanos = System.nanoTime
    rowsBefore = judge.returned
    argumentRows = fedBack - fedBackBefore
    fedBackBefore = fedBack
    results =
      if (depth > 1) op(depth, () => current.generateIterator())
      else if (reads == 1) {
        argument = input
        op(depth, () => input)
      } else {
        current = Generations.rows()
        input.foreach(row => current.add(row.asInstanceOf[UnsafeRow]))
        op(depth, () => current.generateIterator())
      }
  }

  override protected def step(): InternalRow =
    if (results.hasNext) judged(toUnsafe(results.next()))
    else {
      finish()
      null
    }

  /** @return the row as it is emitted; null if it doesn't */
  private def judged(row: UnsafeRow): InternalRow = {
    seen += 1
    if ((seen & Generations.RowsPerCheck) == 0) {
      SparkState.endIfCancelled(context)
      watch.look(depth, seen, sample.keys(row))
    }
    val verdict = judge.judge(depth, rules.closesCycle(row))
    if (verdict.isError) throw rules.error(verdict, depth, row, tooDeep())
    if (verdict.isFedBack) {
      upcoming.add(row)
      fedBack += 1
    }
    if (verdict.isReturned) withDepth(row, depth) else null
  }

  private def tooDeep(): Throwable = {
    val rows = current.generateIterator().take(RowSample.Rows).map(sample.keys).toSeq
    RecursionErrors.tooDeep(rules.settings.maxDepth.get, argumentRows, rows)
  }

  private def finish(): Unit = {
    // Op need not consume all rows, but the operators before the recursion must see the end of their rows.
    while (argument.hasNext) argument.next()
    hops += Hop(judge.returned - rowsBefore, System.nanoTime - startedNanos)
    if (current != null) current.clear()
    val emptied = if (current == null) Generations.rows() else current
    current = upcoming
    upcoming = emptied
    if (current.isEmpty) {
      end()
      rules.sink.report(index, HopCounts(hops.result(), fedBack, judge.stopped, judge.cycles))
    } else begin()
  }
}

private object Generations {

  /** The number of rows between two checks for cancellation, less one; a power of two less one. */
  private val RowsPerCheck = 1023

  // The rows and bytes that are objects in memory at most; further rows are in pages that Spark can spill.
  private val RowsInMemory = 4096
  private val BytesInMemory = 4L << 20

  private def rows(): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(RowsInMemory, BytesInMemory, Int.MaxValue, Long.MaxValue)
}
