package io.tailrace.join

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}

import io.tailrace.common.{StepwiseRows, UnsafeRows}
import io.tailrace.state.{FlushingRows, RowBuffer}

/** Reads both inputs of a task, a row at a time, into buffers. They are written into the state as runs
  * whenever they hold too much, or when Spark has no more memory for them.
  *
  * A row that the state doesn't keep is emitted as it is read: any number of such rows needs no memory.
  *
  * @param flush writes out and clears both buffers
  */
abstract class JoinInput(context: StoredJoinContext, flush: () => Unit) extends AutoCloseable {
  import context.{bufferBytes, memory, store}

  protected final val lefts = new FlushingRows(memory, bufferBytes, flush, () => makeRoom())
  protected final val rights = new FlushingRows(memory, bufferBytes, flush, () => makeRoom())
  final val left: RowBuffer = lefts.rows
  final val right: RowBuffer = rights.rows
  private var kept = 0L
  private var nanos = 0L

  /** The number of rows that went into the state. */
  final def rowsKept: Long = kept

  protected final def keep(
      rows: FlushingRows,
      key: Array[Byte],
      keyLength: Int,
      time: Long,
      value: UnsafeRow
  ): Unit = keepAs(store.newSeq(), rows, key, keyLength, time, value)

  /** @param seq the row's sequence number */
  protected final def keepAs(
      seq: Long,
      rows: FlushingRows,
      key: Array[Byte],
      keyLength: Int,
      time: Long,
      value: UnsafeRow
  ): Unit = {
    rows.append(key, keyLength, time, seq, value)
    kept += 1
  }

  /** Reads an input, and gives the rows that are emitted at once. Each is valid until the next one. */
  def readLeft(rows: Iterator[InternalRow]): Iterator[UnsafeRow]
  def readRight(rows: Iterator[InternalRow]): Iterator[UnsafeRow]

  /** Nanoseconds spent on reading, and on writing buffers out meanwhile. */
  final def readNanos: Long = nanos

  /** Writes out all rows in memory, and gives their memory back. @return whether there were any */
  def makeRoom(): Boolean

  /** Gives back the memory of rows that have been written out. */
  def release(): Unit = {
    left.release()
    right.release()
  }

  override def close(): Unit = {
    left.close()
    right.close()
  }

  /** The rows of one input. A step reads until a row is emitted. */
  protected abstract class Reading(rows: Iterator[InternalRow], attributes: Seq[Attribute])
      extends StepwiseRows[UnsafeRow] {
    private val unsafe = new UnsafeRows(attributes)

    /** The row that is emitted for a row at once; null if none is. */
    protected def receive(row: UnsafeRow): UnsafeRow

    /** Runs once, after the last row: adds to the metrics. */
    protected def report(): Unit

    override protected final def step(): UnsafeRow = {
      val started = System.nanoTime
      var out: UnsafeRow = null
      while (out == null && rows.hasNext) out = receive(unsafe(rows.next()))
      if (out == null) {
        report()
        end()
      }
      nanos += System.nanoTime - started
      out
    }
  }
}
