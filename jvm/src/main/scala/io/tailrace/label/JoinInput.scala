package io.tailrace.label

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Literal, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.common.Mark
import io.tailrace.join.{JoinColumns, JoinMetrics, RowReader}
import io.tailrace.state.{FlushingRows, RowBuffer, RowMemory, TailraceStateStore}

/** Reads both inputs of a task into its buffers, a row at a time: encodes the key, tells late rows from others, and has
  * the buffers written out as a run whenever they hold too much, or Spark has no more memory for them.
  *
  * Rows that the state doesn't keep (late ones that are to come out, left rows without a time) come out at once, as they
  * are read: any number of them needs no memory.
  *
  * @param bufferBytes see `spark.tailrace.state.batchBufferBytes`
  * @param flush       writes out and clears both buffers
  */
final class JoinInput(
    columns: JoinColumns,
    settings: JoinSettings,
    store: TailraceStateStore,
    memory: RowMemory,
    lateWatermark: Long,
    bufferBytes: Long,
    metric: String => SQLMetric,
    flush: () => Unit
) extends RowReader
    with AutoCloseable {
  private val lefts = new FlushingRows(memory, bufferBytes, flush, () => makeRoom())
  private val rights = new FlushingRows(memory, bufferBytes, flush, () => makeRoom())
  val left: RowBuffer = lefts.rows
  val right: RowBuffer = rights.rows
  private val alone = new LoneRows(columns, settings)
  private var kept = 0L

  /** Rows that went into the state. */
  def rowsKept: Long = kept

  /** Reads the left input. What it gives are the rows that come out at once; each is valid until the next one. */
  def readLeft(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = {
    val keys = columns.leftKeyEncoder()
    val timeOrdinal = columns.leftTimeOrdinal
    lazy val late = alone.left(Literal(Mark.LateLeft.reason))
    lazy val timeless = alone.left(Mark.None)
    val expired = if (settings.isGrouped) store.expiredThrough else Long.MinValue
    var lateRows = 0L
    var timelessRows = 0L

    def receive(row: UnsafeRow): UnsafeRow =
      if (row.isNullAt(timeOrdinal)) {
        // It has no window, so nothing can match it: a negative, known at once.
        timelessRows += 1
        if (settings.isGrouped) timeless(row) else null
      } else {
        val time = row.getLong(timeOrdinal)
        // What has expired is asked too: such a row would wait in the state and never come out.
        if (JoinWindow.isLate(time, lateWatermark) || JoinWindow.isLate(time, expired)) {
          lateRows += 1
          if (settings.marksLate) late(row) else null
        } else {
          val keyLength = keys.encode(row)
          // A pair needs two keys, a group is owed to each left row.
          if (keyLength > 0 || settings.isGrouped) keep(lefts, keys.bytes, keyLength, time, row)
          null
        }
      }

    read(rows, UnsafeProjection.create(columns.left, columns.left), receive) {
      countLate(JoinMetrics.LateLeftRows, lateRows)
      if (settings.isGrouped) {
        metric(JoinMetrics.GroupsOut) += timelessRows
        metric(JoinMetrics.GroupsUnmatched) += timelessRows
      }
    }
  }

  /** Reads the right input, as [[readLeft]] does the left one. */
  def readRight(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = {
    val keys = columns.rightKeyEncoder()
    val timeOrdinal = columns.rightTimeOrdinal
    val payload = columns.payloadProjection()
    lazy val late = alone.right
    var lateRows = 0L
    var nullRows = 0L

    def receive(row: UnsafeRow): UnsafeRow = {
      val keyLength = keys.encode(row)
      if (keyLength == 0 || row.isNullAt(timeOrdinal)) {
        nullRows += 1
        null
      } else {
        val time = row.getLong(timeOrdinal)
        if (JoinWindow.isLate(time, lateWatermark)) {
          lateRows += 1
          if (settings.marksLate) late(row) else null
        } else {
          keep(rights, keys.bytes, keyLength, time, payload(row))
          null
        }
      }
    }

    read(rows, UnsafeProjection.create(columns.right, columns.right), receive) {
      countLate(JoinMetrics.LateRightRows, lateRows)
      metric(JoinMetrics.NullKeyRightRows) += nullRows
    }
  }

  private def keep(
      rows: FlushingRows,
      key: Array[Byte],
      keyLength: Int,
      time: Long,
      value: UnsafeRow
  ): Unit = {
    rows.append(key, keyLength, time, store.newSeq(), value)
    kept += 1
  }

  private def makeRoom(): Boolean = (!left.isEmpty || !right.isEmpty) && {
    flush()
    release()
    true
  }

  /** Gives back the memory of the rows that have been flushed. */
  def release(): Unit = {
    left.release()
    right.release()
  }

  private def countLate(name: String, rows: Long): Unit = {
    metric(name) += rows
    if (!settings.marksLate) metric("numRowsDroppedByWatermark") += rows
  }

  override def close(): Unit = {
    left.close()
    right.close()
  }
}
