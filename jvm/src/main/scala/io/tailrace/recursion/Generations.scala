package io.tailrace.recursion

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.common.StepwiseRows

/** One task's recursion: generation after generation, until one is empty. A row comes out as soon as op gives it, and is
  * kept for the next generation, in memory or, when there are many, on disk.
  *
  * {{{
  *   input ──> op ──> hop 1 ──> op ──> hop 2 ──> op ──> nothing
  *                      └─> out          └─> out
  * }}}
  *
  * @param index of the task's partition, in this operator
  * @param op    computes the results of rows, for a hop
  * @param reads how often op reads its argument
  */
private[recursion] final class Generations(
    index: Int,
    input: Iterator[InternalRow],
    op: (Int, () => Iterator[InternalRow]) => Iterator[InternalRow],
    reads: Int,
    rules: FixpointRules,
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

  /** @return the row as it comes out; null if it doesn't */
  private def judged(row: UnsafeRow): InternalRow = {
    seen += 1
    if ((seen & Generations.RowsPerCheck) == 0) {
      SparkState.endIfCancelled(context)
      watch.look(depth, seen, sample.keys(row))
    }
    val verdict = judge.judge(depth, rules.closesCycle(row))
    verdict match {
      case Verdict.TooDeep => throw tooDeep()
      case Verdict.TooMany => throw tooMany(row)
      case Verdict.Cycle => throw RecursionErrors.cycle(sample.path(row))
      case Verdict.Runaway => throw RecursionErrors.runaway(rules.settings.name, depth - 1, sample.keys(row))
      case _ =>
    }
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

  private def tooMany(row: UnsafeRow): Throwable =
    RecursionErrors.tooManyRows(rules.settings.maxRows.get, depth, Seq(sample.keys(row)))

  private def finish(): Unit = {
    // Op need not take all that it is given, and what is before the recursion wants to be read to its end.
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

  /** A power of two less one: after so many rows the task looks whether it has been cancelled. */
  private val RowsPerCheck = 1023

  // Up to so many rows, or bytes, are objects in memory; more are in pages that Spark can have spilled.
  private val RowsInMemory = 4096
  private val BytesInMemory = 4L << 20

  private def rows(): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(RowsInMemory, BytesInMemory, Int.MaxValue, Long.MaxValue)
}
