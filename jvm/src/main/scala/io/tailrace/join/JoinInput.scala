package io.tailrace.join

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}

import io.tailrace.common.{StepwiseRows, UnsafeRows}
import io.tailrace.state.{FlushingRows, RowBuffer}

/** One way of a task through rows: an input, or a part of the state. Each row is valid until the next one. */
abstract class Pass extends StepwiseRows[UnsafeRow] with AutoCloseable {

  /** May be called several times. */
  override def close(): Unit = ()
}

object Pass {

  /** A pass that has ended. */
  private[tailrace] def none: Pass = withoutRows(())

  /** Work between two passes; it emits no row. */
  def withoutRows(work: => Unit): Pass = new Pass {
    override protected def step(): UnsafeRow = {
      work
      end()
      null
    }
  }

  /** Rows that need no closing. They are asked for when the first one is taken. */
  def of(rows: => Iterator[UnsafeRow]): Pass = new Pass {
    private lazy val all = rows

    override protected def step(): UnsafeRow =
      if (all.hasNext) all.next()
      else {
        end()
        null
      }
  }
}

/** Runs the passes of a task, one after the other. A pass is opened when all rows of the previous one have been taken,
  * and that one has been closed: each needs the memory, and what the one before has written.
  */
final class Passes extends AutoCloseable {
  private var open = Pass.none

  /** The rows of all passes. It is called once. */
  def rows(passes: Seq[() => Pass]): Iterator[InternalRow] = new Iterator[InternalRow] {
    private val later = passes.iterator

    override def hasNext: Boolean = open.hasNext || openNext()

    override def next(): InternalRow = {
      if (!hasNext) throw new NoSuchElementException("no more rows")
      open.next()
    }

    @tailrec private def openNext(): Boolean = later.hasNext && {
      close()
      open = later.next()()
      open.hasNext || openNext()
    }
  }

  override def close(): Unit = {
    open.close()
    open = Pass.none
  }
}

/** Decides what becomes of the rows of one side as they are read. */
trait RowReceiver {

  /** @return the row that is emitted for it at once; null if none is */
  def receive(row: UnsafeRow): UnsafeRow

  /** Runs once, after the last row: adds to the metrics. */
  def report(): Unit
}

/** Reads both sides of a task, a row at a time, and buffers those that the state keeps. They are written into the state
  * as runs whenever they hold too much, or when Spark has no more memory for them.
  *
  * A row that the state doesn't keep is emitted as it is read: any number of such rows needs no memory.
  *
  * @param flush    writes out and clears both buffers
  * @param makeRoom writes out all rows in memory, and gives their memory back; returns whether there were any
  */
final class JoinInput(context: StoredJoinContext, flush: () => Unit, makeRoom: () => Boolean)
    extends AutoCloseable {
  import context.{bufferBytes, memory, store}

  val lefts = new FlushingRows(memory, bufferBytes, flush, makeRoom)
  val rights = new FlushingRows(memory, bufferBytes, flush, makeRoom)
  val left: RowBuffer = lefts.rows
  val right: RowBuffer = rights.rows
  private var kept = 0L
  private var nanos = 0L

  /** The number of rows that went into the state. */
  def rowsKept: Long = kept

  /** Nanoseconds spent on reading, and on writing buffers out meanwhile. */
  def readNanos: Long = nanos

  /** @param rows [[lefts]] or [[rights]] */
  def keep(rows: FlushingRows, key: Array[Byte], keyLength: Int, time: Long, value: UnsafeRow): Unit =
    keepAs(store.newSeq(), rows, key, keyLength, time, value)

  /** @param seq the row's sequence number */
  def keepAs(
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

  /** Reads one side. A step reads until a row is emitted. */
  def read(rows: Iterator[InternalRow], columns: Seq[Attribute], receiver: RowReceiver): Pass = new Pass {
    private val unsafe = new UnsafeRows(columns)

    override protected def step(): UnsafeRow = {
      val started = System.nanoTime
      var out: UnsafeRow = null
      while (out == null && rows.hasNext) out = receiver.receive(unsafe(rows.next()))
      if (out == null) {
        receiver.report()
        end()
      }
      nanos += System.nanoTime - started
      out
    }
  }

  def isEmpty: Boolean = left.isEmpty && right.isEmpty

  def clear(): Unit = {
    left.clear()
    right.clear()
  }

  /** Gives back the memory of rows that have been written out. */
  def release(): Unit = {
    left.release()
    right.release()
  }

  override def close(): Unit = {
    left.close()
    right.close()
  }
}
