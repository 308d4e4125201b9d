package io.tailrace.recursion

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.storage.StorageLevel

import io.tailrace.common.Policy
import io.tailrace.driver.PartitionAccumulator

/** The recursion of an op that exchanges its argument: the driver runs a job for each hop, all within the micro-batch.
  * The rows of a hop are kept by Spark's block manager, in memory and on disk, until the next micro-batch. Limits are
  * looked at when a hop is complete, and `max_rows` is of all tasks together.
  */
private[recursion] final class ShuffledFixpoint(
    op: RecursionBody,
    rules: FixpointRules,
    keep: KeptHop
) {
  import ShuffledFixpoint._

  private val settings = rules.settings
  private val stops = settings.onLimit == Policy.Drop

  private var hops = Vector.empty[Hop]
  private var results = Vector.empty[RDD[InternalRow]]
  private var fedBack = 0L
  private var stopped = 0L
  private var cycles = 0L
  private val watch = new RunawayWatch(settings)

  def run(input: RDD[InternalRow]): RDD[InternalRow] = {
    // Even if op gives nothing, what is before the recursion is run, and once.
    var argument = keep(copies(input, rules))
    var going = tally(argument, rules).iterator.map(_.rows).sum
    while (going > 0) {
      val started = System.nanoTime
      val all = keep(copies(op.at(hops.size + 1, argument), rules))
      val (goesRound, rows) = hop(all, argument)
      hops = hops.init :+ hops.last.copy(nanos = System.nanoTime - started)
      val enough = KeptHop.partitionsFor(rows)
      argument = if (goesRound.getNumPartitions > enough) goesRound.coalesce(enough) else goesRound
      going = rows
    }
    rules.sink.report(PartitionAccumulator.Driver, HopCounts(hops, fedBack, stopped, cycles))
    new HopsRDD(input.sparkContext, results)
  }

  /** @return the rows that go round once more, and how many they are */
  private def hop(all: RDD[InternalRow], argument: RDD[InternalRow]): (RDD[InternalRow], Long) = {
    val depth = hops.size + 1
    val tallies = tally(all, rules)
    check(tallies, depth, argument)
    cycles += tallies.map(_.cycles).sum
    val leavesOut = settings.onCycle == Policy.Drop
    val rows = tallies.map(t => t.rows - (if (leavesOut) t.cycles else 0))
    val room = settings.maxRows.getOrElse(Long.MaxValue) - hops.iterator.map(_.rows).sum
    // So many of each partition: all, or as many as there is room for.
    val shares = rows.scanLeft(room)((left, n) => left - Math.min(left, n)).zip(rows).map { case (left, n) =>
      Math.min(left, n)
    }
    val returned = take(all, shares, leavesOut, rules)
    val kept = shares.sum
    hops :+= Hop(kept, 0)
    results :+= withDepth(returned, depth, rules)
    val wantsRound = kept - (if (leavesOut) 0 else tallies.map(_.cycles).sum)
    val ends = kept < rows.sum || (stops && settings.maxDepth.contains(depth))
    stopped += rows.sum - kept + (if (ends) wantsRound else 0)
    if (!ends) fedBack += wantsRound
    (goingRound(returned, rules), if (ends) 0 else wantsRound)
  }

  private def check(tallies: Array[Tally], depth: Int, argument: RDD[InternalRow]): Unit = {
    if (settings.onCycle == Policy.Fail) {
      tallies.flatMap(_.firstCycle).headOption.foreach(path => throw RecursionErrors.cycle(path))
    }
    val rows = tallies.iterator.map(_.rows).sum
    if (rows > 0 && settings.maxDepth.exists(_ < depth)) {
      val before = tally(argument, rules)
      throw RecursionErrors.tooDeep(depth - 1, before.map(_.rows).sum, sampled(before))
    }
    if (rows > 0) {
      val all = hops.iterator.map(_.rows).sum + rows
      watch.look(depth, all, sampled(tallies).mkString("; "))
      if (settings.maxDepth.isEmpty && depth > RecursionSettings.Guard) {
        throw RecursionErrors.runaway(settings.name, depth - 1, sampled(tallies).mkString("; "))
      }
    }
    val most = settings.maxRows.getOrElse(Long.MaxValue)
    if (!stops && hops.iterator.map(_.rows).sum + rows > most) {
      throw RecursionErrors.tooManyRows(most, depth, sampled(tallies))
    }
  }

  private def sampled(tallies: Array[Tally]): Seq[String] =
    tallies.flatMap(_.sample).take(RowSample.Rows).toSeq
}

private[recursion] object ShuffledFixpoint {
  val Storage: StorageLevel = StorageLevel.MEMORY_AND_DISK

  /** What there is in a partition of a hop. */
  private final case class Tally(rows: Long, cycles: Long, firstCycle: Option[String], sample: Seq[String])

  // Functions of their own: they run on executors, and take nothing of the driver's along.

  private def copies(rows: RDD[InternalRow], rules: FixpointRules): RDD[InternalRow] =
    rows.mapPartitions { part =>
      val toUnsafe = rules.toUnsafe()
      part.map(row => toUnsafe(row).copy(): InternalRow)
    }

  private def tally(rows: RDD[InternalRow], rules: FixpointRules): Array[Tally] =
    rows.sparkContext.runJob(rows, (_: TaskContext, part: Iterator[InternalRow]) => tally(part, rules))

  private def tally(part: Iterator[InternalRow], rules: FixpointRules): Tally = {
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

  private def take(
      rows: RDD[InternalRow],
      shares: Array[Long],
      leavesOut: Boolean,
      rules: FixpointRules
  ): RDD[InternalRow] =
    rows.mapPartitionsWithIndex { (i, part) =>
      val wanted = if (leavesOut) part.filterNot(closes(rules)) else part
      var left = shares(i)
      wanted.takeWhile { _ =>
        left -= 1
        left >= 0
      }
    }

  private def goingRound(rows: RDD[InternalRow], rules: FixpointRules): RDD[InternalRow] =
    rows.mapPartitions(_.filterNot(closes(rules)))

  private def closes(rules: FixpointRules): InternalRow => Boolean =
    row => rules.closesCycle(row.asInstanceOf[UnsafeRow])

  private def withDepth(rows: RDD[InternalRow], depth: Int, rules: FixpointRules): RDD[InternalRow] =
    rows.mapPartitions { part =>
      val join = rules.withDepth()
      part.map(row => join(row.asInstanceOf[UnsafeRow], depth))
    }
}
