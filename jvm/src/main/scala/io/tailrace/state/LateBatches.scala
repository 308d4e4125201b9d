package io.tailrace.state

import java.util.Arrays

/** The batches that have taken late rows: they say which rows were late, and in which batch.
  *
  * @param batches oldest first
  */
private[tailrace] final class LateBatches(batches: Seq[LateRows]) {
  private val firsts = batches.map(b => RowLayout.firstSeq(b.version)).toArray
  private val watermarks = batches.map(_.watermark).toArray

  // Most rows came before all of these batches.
  private val least = if (firsts.isEmpty) Long.MaxValue else firsts(0)

  /** The number of the batch that took a row late; -1 if the row wasn't late. */
  def of(seq: Long, time: Long): Int =
    if (seq < least) -1
    else {
      val found = Arrays.binarySearch(firsts, seq)
      // The last of the batches that isn't after the row's. A row of another batch is after the watermark of both.
      val batch = if (found >= 0) found else -found - 2
      if (time <= watermarks(batch)) batch else -1
    }
}
