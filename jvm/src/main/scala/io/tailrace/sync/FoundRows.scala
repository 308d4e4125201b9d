package io.tailrace.sync

import io.tailrace.state.{RowBuffer, RowLayout, RowMemory}

/** Copies of the right rows that were found for a left row: the first one by time, which is joined, and how many there were.
  * Of one time it is the one whose bytes come first, so that it isn't chance which one has come first.
  *
  * @param keepsAll whether the others are kept too, because they come out
  */
private[sync] final class FoundRows(memory: RowMemory, keepsAll: Boolean) extends AutoCloseable {
  private val rows = new RowBuffer(memory).prepare()
  private var best = -1
  private var found = 0L

  def clear(): Unit = if (found > 0) {
    rows.clear()
    best = -1
    found = 0
  }

  /** Rows that were found. */
  def count: Long = found

  /** @param base see [[io.tailrace.state.RowLayout]] */
  def add(base: AnyRef, at: Long): Unit = {
    found += 1
    val better = best < 0 || {
      val byTime = java.lang.Long.compare(RowLayout.time(base, at), rows.time(best))
      byTime < 0 || (byTime == 0 && isFirst(base, at))
    }
    if (better || keepsAll) {
      if (!keepsAll) rows.clear()
      val row = rows.appendRow(base, at)
      if (better) best = row
    }
  }

  private def isFirst(base: AnyRef, at: Long): Boolean = {
    val byValue = RowLayout.compareValues(base, at, rows.base(best), rows.at(best))
    byValue < 0 || (byValue == 0 && RowLayout.seq(base, at) < rows.seq(best))
  }

  /** The number of the row that is joined. */
  def joined: Int = best

  /** The rows that are kept. */
  def kept: RowBuffer = rows

  override def close(): Unit = rows.close()
}
