package io.tailrace.state

/** Rows of sections, one after the other, each where it is read. */
private[tailrace] trait CursorRows extends AutoCloseable {
  def isEmpty: Boolean

  /** At the first row that is left, until [[drop]]. Not where there is none. */
  def head: RunCursor

  /** The section that this row is in. */
  def headSection: LiveSection

  /** Goes on to the next row. */
  def drop(): Unit
}
