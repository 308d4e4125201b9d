package io.tailrace.common

import org.apache.spark.sql.catalyst.InternalRow

/** Rows of a task that come out of steps, each of which gives one or none. */
abstract class StepwiseRows extends Iterator[InternalRow] {
  private var waiting: InternalRow = _
  private var ended = false

  /** The next row that comes out; null: this step gives none. */
  protected def step(): InternalRow

  /** No step is left. */
  protected final def end(): Unit = ended = true
  protected final def hasEnded: Boolean = ended

  override final def hasNext: Boolean = {
    while (waiting == null && !ended) waiting = step()
    waiting != null
  }

  override final def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("no more rows")
    val row = waiting
    waiting = null
    row
  }
}
