package io.tailrace.recursion

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.tailrace.{SparkSession, SparkState}
import org.apache.spark.storage.StorageLevel
import org.apache.spark.{
  NarrowDependency,
  OneToOneDependency,
  Partition,
  ShuffleDependency,
  SparkContext,
  TaskContext
}

import io.tailrace.common.{Policy, StepwiseRows}
import io.tailrace.driver.{BatchSequence, PartitionAccumulator, RunState}

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

/** The recursion of an op that exchanges its argument: the driver runs a job for each hop, all within the
  * micro-batch. Spark's block manager keeps the rows of a hop, in memory and on disk, until the next
  * micro-batch. Limits are checked when a hop is complete, and `max_rows` is for all tasks together.
  */
private[recursion] final class ShuffledFixpoint(op: RecursionBody, rules: RecursionRules, keep: KeptHop) {
  import ShuffledFixpoint._

  private val settings = rules.settings
  private val stops = settings.onLimit == Policy.Drop

  private var hops = Vector.empty[Hop]
  private var results = Vector.empty[RDD[InternalRow]]
  private var returned = 0L
  private var fedBack = 0L
  private var stopped = 0L
  private var cycles = 0L
  private val watch = new RunawayWatch(settings)

  def run(input: RDD[InternalRow]): RDD[InternalRow] = {
    // Even if op gives no row, the operators before the recursion run, and once.
    var argument = keep(copies(input, rules))
    var going = tally(argument, rules).map(_.rows).sum
    while (going > 0) {
      val started = System.nanoTime
      val all = keep(copies(op.at(hops.size + 1, argument), rules))
      val (goesRound, rows) = hop(all, argument)
      hops = hops.init :+ hops.last.copy(nanos = System.nanoTime - started)
      argument = KeptHop.bounded(goesRound, KeptHop.partitionsFor(rows))
      going = rows
    }
    rules.sink.report(PartitionAccumulator.Driver, HopCounts(hops, fedBack, stopped, cycles))
    new HopsRDD(input.sparkContext, results)
  }

  /** @return the rows that are fed back, and their number */
  private def hop(all: RDD[InternalRow], argument: RDD[InternalRow]): (RDD[InternalRow], Long) = {
    val depth = hops.size + 1
    val tallies = tally(all, rules)
    check(tallies, depth, argument)
    val closing = tallies.map(_.cycles).sum
    cycles += closing
    val leavesOut = settings.onCycle == Policy.Drop
    val rows = tallies.map(t => t.rows - (if (leavesOut) t.cycles else 0))
    // From each partition come as many rows as there is room for.
    val room = settings.maxRows.getOrElse(Long.MaxValue) - returned
    val shares = rows.scanLeft(room)((left, n) => left - Math.min(left, n)).zip(rows).map { case (left, n) =>
      Math.min(left, n)
    }
    val kept = shares.sum
    val taken = take(all, shares, leavesOut, rules)
    returned += kept
    hops :+= Hop(kept, 0)
    results :+= withDepth(taken, depth, rules)
    val wantsRound = kept - (if (leavesOut) 0 else closing)
    val ends = kept < rows.sum || (stops && settings.maxDepth.contains(depth))
    stopped += rows.sum - kept + (if (ends) wantsRound else 0)
    if (!ends) fedBack += wantsRound
    (goingRound(taken, rules), if (ends) 0 else wantsRound)
  }

  private def check(tallies: Array[Tally], depth: Int, argument: RDD[InternalRow]): Unit = {
    if (settings.onCycle == Policy.Fail)
      tallies.flatMap(_.firstCycle).headOption.foreach(path => throw RecursionErrors.cycle(path))
    val rows = tallies.map(_.rows).sum
    def text = sampled(tallies).mkString("; ")
    if (rows > 0 && settings.maxDepth.exists(_ < depth)) {
      val before = tally(argument, rules)
      throw RecursionErrors.tooDeep(depth - 1, before.map(_.rows).sum, sampled(before))
    }
    if (rows > 0) {
      watch.look(depth, returned + rows, text)
      if (settings.maxDepth.isEmpty && depth > RecursionSettings.Guard)
        throw RecursionErrors.runaway(settings.name, depth - 1, text)
    }
    settings.maxRows.filter(most => !stops && returned + rows > most).foreach { most =>
      throw RecursionErrors.tooManyRows(most, depth, sampled(tallies))
    }
  }

  private def sampled(tallies: Array[Tally]): Seq[String] =
    tallies.flatMap(_.sample).take(RowSample.Rows).toSeq
}

private[recursion] object ShuffledFixpoint {
  val Storage: StorageLevel = StorageLevel.MEMORY_AND_DISK

  /** The counts of one partition of a hop. */
  private final case class Tally(rows: Long, cycles: Long, firstCycle: Option[String], sample: Seq[String])

  // These run on executors. They are outside of the class, so that Spark doesn't send it along.

  private def copies(rows: RDD[InternalRow], rules: RecursionRules): RDD[InternalRow] =
    rows.mapPartitions { part =>
      val toUnsafe = rules.toUnsafe()
      part.map(row => toUnsafe(row).copy(): InternalRow)
    }

  private def tally(rows: RDD[InternalRow], rules: RecursionRules): Array[Tally] =
    rows.sparkContext.runJob(rows, (_: TaskContext, part: Iterator[InternalRow]) => tally(part, rules))

  private def tally(part: Iterator[InternalRow], rules: RecursionRules): Tally = {
    val sample = rules.sample()
    part.foldLeft(Tally(0, 0, None, Nil)) { (tally, row) =>
      val unsafe = row.asInstanceOf[UnsafeRow]
      val counted = tally.copy(
        rows = tally.rows + 1,
        sample = if (tally.rows < RowSample.Rows) tally.sample :+ sample.keys(unsafe) else tally.sample
      )
      if (!rules.closesCycle(unsafe)) counted
      else
        counted.copy(
          cycles = tally.cycles + 1,
          firstCycle = tally.firstCycle.orElse(Some(sample.path(unsafe)))
        )
    }
  }

  private def take(rows: RDD[InternalRow], shares: Array[Long], leavesOut: Boolean, rules: RecursionRules) =
    rows.mapPartitionsWithIndex { (i, part) =>
      val wanted = if (leavesOut) part.filterNot(closes(rules)) else part
      var left = shares(i)
      wanted.takeWhile { _ =>
        left -= 1
        left >= 0
      }
    }

  private def goingRound(rows: RDD[InternalRow], rules: RecursionRules): RDD[InternalRow] =
    rows.mapPartitions(_.filterNot(closes(rules)))

  private def closes(rules: RecursionRules): InternalRow => Boolean =
    row => rules.closesCycle(row.asInstanceOf[UnsafeRow])

  private def withDepth(rows: RDD[InternalRow], depth: Int, rules: RecursionRules): RDD[InternalRow] =
    rows.mapPartitions { part =>
      val join = rules.withDepth()
      part.map(row => join(row.asInstanceOf[UnsafeRow], depth))
    }
}

/** Bounds the growth from hop to hop: the partitions that a union or a product adds, and the chain of
  * its parent RDDs. Spark sends the whole chain to each task, and traverses it recursively.
  *
  * @param keep       makes Spark keep the rows of an RDD
  * @param partitions the most that a hop may have
  */
private[recursion] final class KeptHop(keep: RDD[InternalRow] => RDD[InternalRow], partitions: Int) {
  import KeptHop._

  def apply(rows: RDD[InternalRow]): RDD[InternalRow] = {
    val kept = keep(bounded(rows, partitions))
    // From now on it is its blocks alone: if an executor is lost, the query or the batch fails.
    if (lineage(kept) > LongestLineage) kept.localCheckpoint()
    kept
  }
}

private[recursion] object KeptHop {

  /** The longest chain of RDDs. Several hundred don't fit on the stack of the thread that sends a task. */
  private val LongestLineage = 64

  /** The number of rows that justifies a partition of the next hop. */
  private val RowsPerPartition = 10000L

  /** The number of partitions that suffices for a number of rows. */
  def partitionsFor(rows: Long): Int =
    Math.max(1L, Math.min(Int.MaxValue.toLong, rows / RowsPerPartition)).toInt

  def bounded(rows: RDD[InternalRow], partitions: Int): RDD[InternalRow] =
    if (rows.getNumPartitions > partitions) rows.coalesce(partitions) else rows

  /** The longest way back to a shuffle or a source. */
  private def lineage(rdd: RDD[_]): Int = 1 + rdd.dependencies.iterator
    .map {
      case _: ShuffleDependency[_, _, _] => 0
      case dependency => lineage(dependency.rdd)
    }
    .maxOption
    .getOrElse(0)
}

/** The rows of hops that Spark keeps for a micro-batch. An operator isn't notified of the end of a batch, so the
  * rows are freed when the next batch comes, or when the run ends.
  */
private[recursion] final class KeptRows {
  private type Rows = mutable.ListBuffer[RDD[InternalRow]]

  private val batches = new BatchSequence[Rows]((_, before) => {
    before.foreach(release)
    new Rows
  })

  /** Makes Spark keep the rows of an RDD, as long as the batch. */
  def keep(batch: Long)(rows: RDD[InternalRow]): RDD[InternalRow] = synchronized {
    val stored: RDD[InternalRow] = rows.persist(ShuffledFixpoint.Storage)
    batches.at(batch) += stored
    stored
  }

  private def release(rows: Rows): Unit =
    // A context that is stopped has freed its blocks.
    rows.filterNot(_.sparkContext.isStopped).foreach(_.unpersist(blocking = false))

  private def releaseAll(): Unit = synchronized(batches.last.foreach(release))
}

private[recursion] object KeptRows {
  private val runs = new RunState[KeptRows](_.releaseAll())

  /** The rows of the run that this thread executes. */
  def of(session: SparkSession, recursion: String): KeptRows = runs.of(session, recursion)(new KeptRows)
}

/** The results of all hops. Partition i has partition i of each hop. Spark's union would have tasks for each
  * hop.
  */
private[recursion] final class HopsRDD(context: SparkContext, private var hops: Seq[RDD[InternalRow]])
    extends RDD[InternalRow](context, hops.map(new PartitionOfSameNumber(_))) {

  override protected def getPartitions: Array[Partition] =
    Array.tabulate(hops.iterator.map(_.getNumPartitions).maxOption.getOrElse(0)) { i =>
      HopsPartition(i, hops.map(hop => Option.when(i < hop.getNumPartitions)(hop.partitions(i))))
    }

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val parts = split.asInstanceOf[HopsPartition].parts
    hops.iterator.zip(parts).flatMap { case (hop, part) =>
      part.fold(Iterator.empty[InternalRow])(hop.iterator(_, context))
    }
  }

  override def clearDependencies(): Unit = {
    super.clearDependencies()
    hops = null
  }
}

private[recursion] final case class HopsPartition(index: Int, parts: Seq[Option[Partition]]) extends Partition

private final class PartitionOfSameNumber(hop: RDD[InternalRow]) extends NarrowDependency[InternalRow](hop) {
  override def getParents(partition: Int): Seq[Int] =
    if (partition < hop.getNumPartitions) Seq(partition) else Nil
}
