package io.tailrace.sync

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.join.{JoinColumns, JoinMetrics, RowReader}
import io.tailrace.state.{FlushingRows, RowBuffer, RowMemory, TailraceStateStore}

/** Reads both inputs of a task: a left row is released at once or waits, a right row waits. Left rows without a key or a
  * time come out as they are read, for nothing can match them.
  *
  * @param through     left rows up to this time are released
  * @param joined      rows up to this time are joined; those beyond come out as they are read, marked
  * @param bufferBytes see `spark.tailrace.state.batchBufferBytes`
  * @param flush       writes out and clears both buffers
  */
private[sync] final class SyncInput(
    columns: JoinColumns,
    store: TailraceStateStore,
    memory: RowMemory,
    through: Long,
    joined: Long,
    released: ReleasedRows,
    writer: => SyncWriter,
    bufferBytes: Long,
    metric: String => SQLMetric,
    flush: () => Unit
) extends RowReader
    with AutoCloseable {

  private val lefts = new FlushingRows(memory, bufferBytes, flush, () => makeRoom())
  private val rights = new FlushingRows(memory, bufferBytes, flush, () => makeRoom())

  /** Left rows that wait. */
  val left: RowBuffer = lefts.rows
  val right: RowBuffer = rights.rows

  def readLeft(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = {
    val keys = columns.leftKeyEncoder()
    val timeOrdinal = columns.leftTimeOrdinal
    // Up to there left rows had been released when the batch before ended.
    val before = store.expiredThrough
    var alone = 0L
    var late = 0L
    var future = 0L

    def receive(row: UnsafeRow): UnsafeRow = {
      val keyLength = keys.encode(row)
      if (keyLength == 0 || row.isNullAt(timeOrdinal)) {
        alone += 1
        writer.leftAlone(row, duplicate = false)
      } else {
        val time = row.getLong(timeOrdinal)
        if (time > joined) {
          future += 1
          writer.futureLeft(row)
        } else {
          if (time <= through) {
            if (time <= before && before != Long.MinValue) late += 1
            released.append(keys.bytes, keyLength, time, store.newSeq(), row)
          } else keep(left, keys.bytes, keyLength, time, row)
          null
        }
      }
    }

    read(rows, UnsafeProjection.create(columns.left, columns.left), receive) {
      metric(SyncMetrics.UnmatchedLeft) += alone
      metric(SyncMetrics.LateLeft) += late
      metric(SyncMetrics.FutureLeft) += future
    }
  }

  def readRight(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = {
    val keys = columns.rightKeyEncoder()
    val timeOrdinal = columns.rightTimeOrdinal
    val payload = columns.payloadProjection()
    var nullRows = 0L
    var future = 0L

    def receive(row: UnsafeRow): UnsafeRow = {
      val keyLength = keys.encode(row)
      if (keyLength == 0 || row.isNullAt(timeOrdinal)) {
        nullRows += 1
        null
      } else if (row.getLong(timeOrdinal) > joined) {
        future += 1
        writer.futureRight(Arrays.copyOf(keys.bytes, keyLength), payload(row))
      } else {
        keep(right, keys.bytes, keyLength, row.getLong(timeOrdinal), payload(row))
        null
      }
    }

    read(rows, UnsafeProjection.create(columns.right, columns.right), receive) {
      metric(JoinMetrics.NullKeyRightRows) += nullRows
      metric(SyncMetrics.FutureRight) += future
    }
  }

  private def keep(
      buffer: RowBuffer,
      key: Array[Byte],
      keyLength: Int,
      time: Long,
      value: UnsafeRow
  ): Unit = sink(buffer).append(key, keyLength, time, store.newSeq(), value)

  /** Keeps a row of the state, which is written again, and stays what it is.
    *
    * @param base see [[io.tailrace.state.RowLayout]]
    */
  def carry(buffer: RowBuffer, base: AnyRef, at: Long): Unit = sink(buffer).appendRow(base, at)

  private def sink(buffer: RowBuffer): FlushingRows = if (buffer eq left) lefts else rights

  /** Bytes of the rows that are in memory. */
  def bytes: Long = left.bytes + right.bytes + released.bytes

  /** Has all rows written that are in memory. @return whether there were any */
  def makeRoom(): Boolean = bytes > 0 && {
    released.release()
    flush()
    left.release()
    right.release()
    true
  }

  override def close(): Unit = {
    left.close()
    right.close()
  }
}
