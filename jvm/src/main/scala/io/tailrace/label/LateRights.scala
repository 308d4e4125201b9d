package io.tailrace.label

import java.util.Arrays

import io.tailrace.join.Growth
import io.tailrace.state.{LateBatches, LateRows, RunCursor}

/** Hides right rows that arrived behind the watermark from some left rows. The window of a left row may have closed
  * when it came, though the left row still waited for the next of the [[ReleaseSteps]]. Such a row has what it had:
  * so what is emitted depends neither on the steps nor on the partition.
  *
  * {{{
  *   after = 30 min     left rows 12:00 12:02 12:05 wait
  *   W = 12:33          a right row of 12:20 comes: only 12:05 gets it
  *   next step          12:00 12:02 12:05 are emitted
  * }}}
  *
  * @param batches that have taken late rows which such left rows don't get, oldest first
  * @param to      a match is at the left row's time plus `to` at the most
  * @param grown   earlier windows. Rows kept open by a longer one keep their matches
  */
private[tailrace] final class LateRights(batches: Seq[LateRows], to: Long, grown: Seq[Growth] = Nil) {
  import LateRights.All

  private val late = new LateBatches(batches)
  private val closed = batches.map(LateRights.closed(_, to, grown)).toArray
  private val closings = closed.sorted

  /** True if each left row gets all right rows of its window. */
  def isNone: Boolean = batches.isEmpty

  /** Left rows up to this time don't get the right row; [[LateRights.All]] if all do. */
  def hiddenThrough(seq: Long, time: Long): Long = {
    val batch = late.of(seq, time)
    if (batch < 0) All else closed(batch)
  }

  def hiddenThrough(row: RunCursor): Long = hiddenThrough(row.seq, row.time)

  /** Left rows after `leftTime` up to this time get the same of these right rows as one at `leftTime`. */
  def sameThrough(leftTime: Long): Long = {
    val found = Arrays.binarySearch(closings, leftTime)
    val next = if (found >= 0) found else -found - 1
    if (next < closings.length) closings(next) else Long.MaxValue
  }
}

private[tailrace] object LateRights {

  /** Each left row of its window gets the right row. */
  val All: Long = Long.MinValue
  val None: LateRights = new LateRights(Nil, 0)

  /** No left row gets a right row that came with a version, or later. */
  def since(version: Long): LateRights = new LateRights(Seq(LateRows(version, Long.MaxValue)), 0)

  /** Left rows up to this time don't get the late right rows of a batch. */
  def closed(batch: LateRows, to: Long, grown: Seq[Growth]): Long = {
    val (then, _) = Growth.of(batch.version - 1, grown)
    JoinWindow(0, then.fold(to)(Math.max(_, to))).leftExpiry(batch.watermark)
  }
}
