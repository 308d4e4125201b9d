package io.tailrace.join

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}

/** Reads the inputs of a task, a row at a time. What comes out at once, because the state doesn't keep it, comes out as it
  * is read: any number of such rows needs no memory.
  */
abstract class RowReader {
  private var nanos = 0L

  /** Nanoseconds spent on reading, and on what was flushed meanwhile. */
  def readNanos: Long = nanos

  /** @param receive what comes out for a row, or null
    * @param ended runs once, after the last row
    */
  protected final def read(
      rows: Iterator[InternalRow],
      toUnsafe: => UnsafeProjection,
      receive: UnsafeRow => UnsafeRow
  )(
      ended: => Unit
  ): Iterator[UnsafeRow] = new Iterator[UnsafeRow] {
    private lazy val projection = toUnsafe
    private var out: UnsafeRow = _
    private var more = true

    override def hasNext: Boolean = {
      if (out == null && more) advance()
      out != null
    }

    private def advance(): Unit = {
      val started = System.nanoTime
      while (out == null && rows.hasNext) {
        out = rows.next() match {
          case row: UnsafeRow => receive(row)
          case row => receive(projection(row))
        }
      }
      if (out == null) {
        more = false
        ended
      }
      nanos += System.nanoTime - started
    }

    override def next(): UnsafeRow = {
      if (!hasNext) throw new NoSuchElementException("no more rows come out at once")
      val row = out
      out = null
      row
    }
  }
}
