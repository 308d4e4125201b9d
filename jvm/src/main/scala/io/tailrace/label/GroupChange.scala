package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.state.RowLayout

/** Compares what comes out of a left row with its version before. */
private[tailrace] trait GroupChange {

  /** True if the columns have other values now. */
  def isChanged: Boolean

  /** True if a column that was empty has a match now. */
  def hasGained: Boolean

  def compare(left: UnsafeRow, leftTime: Long, now: Matches, before: Matches): Unit
}

private[label] final class OneGroupChange(form: OneGroup) extends GroupChange {
  private var changed = false
  private var gained = false

  override def isChanged: Boolean = changed
  override def hasGained: Boolean = gained

  override def compare(left: UnsafeRow, leftTime: Long, now: Matches, before: Matches): Unit = {
    val (nowStart, nowSize) = form.chosen(leftTime, now)
    val (start, size) = form.chosen(leftTime, before)
    // Of the same size: the flag of the cap may have changed.
    changed = nowSize != size || (form.leftOut(now) > 0) != (form.leftOut(before) > 0) || {
      var i = 0
      while (i < size && isSame(now.rows, nowStart + i, before.rows, start + i)) i += 1
      i < size
    }
    gained = size == 0 && nowSize > 0
  }

  private def isSame(a: Candidates, i: Int, b: Candidates, j: Int): Boolean =
    RowLayout.compareValues(a.base(i), a.at(i), b.base(j), b.at(j)) == 0
}
