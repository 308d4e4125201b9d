package io.tailrace.common

/** Rows that come out of steps, each of which gives one row or none. */
abstract class StepwiseRows[R >: Null <: AnyRef] extends Iterator[R] {
  private var waiting: R = _
  private var ended = false

  /** The row of the next step; null if the step gives none. */
  protected def step(): R

  /** No step follows. */
  protected final def end(): Unit = ended = true
  protected final def hasEnded: Boolean = ended

  override final def hasNext: Boolean = {
    while (waiting == null && !ended) waiting = step()
    waiting != null
  }

  override final def next(): R = {
    if (!hasNext) throw new NoSuchElementException("no more rows")
    val row = waiting
    waiting = null
    row
  }
}
