package io.tailrace.sync

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.common.RowMemoryExhausted
import io.tailrace.join.{JoinColumns, JoinMetrics, RowReader}
import io.tailrace.state.{RowBuffer, RowMemory, TailraceStateStore}

/** Reads both inputs of a task: a left row is released at once or waits, a right row waits. Left rows without a key or a
  * time come out as they are read, for nothing can match them.
  *
  * @param through     left rows up to this time are released
  * @param bufferBytes see `spark.tailrace.state.batchBufferBytes`
  * @param flush       writes out and clears both buffers
  */
private[sync] final class SyncInput(
    columns: JoinColumns,
    store: TailraceStateStore,
    memory: RowMemory,
    through: Long,
    released: ReleasedRows,
    writer: => SyncWriter,
    bufferBytes: Long,
    metric: String => SQLMetric,
    flush: () => Unit
) extends RowReader
    with AutoCloseable {

  /** Left rows that wait. */
  val left = new RowBuffer(memory)
  val right = new RowBuffer(memory)

  def readLeft(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = {
    val keys = columns.leftKeyEncoder()
    val timeOrdinal = columns.leftTimeOrdinal
    // Up to there left rows had been released when the batch before ended.
    val before = store.expiredThrough
    var alone = 0L
    var late = 0L

    def receive(row: UnsafeRow): UnsafeRow = {
      val keyLength = keys.encode(row)
      if (keyLength == 0 || row.isNullAt(timeOrdinal)) {
        alone += 1
        writer.leftAlone(row, duplicate = false)
      } else {
        val time = row.getLong(timeOrdinal)
        if (time <= through) {
          if (time <= before && before != Long.MinValue) late += 1
          released.append(keys.bytes, keyLength, time, store.newSeq(), row)
        } else keep(left, keys.bytes, keyLength, time, row)
        null
      }
    }

    read(rows, UnsafeProjection.create(columns.left, columns.left), receive) {
      metric(SyncMetrics.UnmatchedLeft) += alone
      metric(SyncMetrics.LateLeft) += late
    }
  }

  def readRight(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = {
    val keys = columns.rightKeyEncoder()
    val timeOrdinal = columns.rightTimeOrdinal
    val payload = columns.payloadProjection()
    var nullRows = 0L

    def receive(row: UnsafeRow): UnsafeRow = {
      val keyLength = keys.encode(row)
      if (keyLength == 0 || row.isNullAt(timeOrdinal)) nullRows += 1
      else keep(right, keys.bytes, keyLength, row.getLong(timeOrdinal), payload(row))
      null
    }

    read(rows, UnsafeProjection.create(columns.right, columns.right), receive) {
      metric(JoinMetrics.NullKeyRightRows) += nullRows
    }
  }

  private def keep(
      buffer: RowBuffer,
      key: Array[Byte],
      keyLength: Int,
      time: Long,
      value: UnsafeRow
  ): Unit = {
    val seq = store.newSeq()
    try buffer.append(key, keyLength, time, seq, value)
    catch {
      case _: RowMemoryExhausted if holdsRows =>
        makeRoom()
        buffer.append(key, keyLength, time, seq, value)
    }
    if (buffer.bytes > bufferBytes) flush()
  }

  /** Keeps a row of the state, which is written again, and stays what it is.
    *
    * @param base see [[io.tailrace.state.RowLayout]]
    */
  def carry(buffer: RowBuffer, base: AnyRef, at: Long): Unit = {
    try buffer.appendRow(base, at)
    catch {
      case _: RowMemoryExhausted if holdsRows =>
        makeRoom()
        buffer.appendRow(base, at)
    }
    if (buffer.bytes > bufferBytes) flush()
  }

  private def holdsRows: Boolean = !left.isEmpty || !right.isEmpty || !released.isEmpty

  private def makeRoom(): Unit = {
    released.spill()
    flush()
  }

  override def close(): Unit = {
    left.close()
    right.close()
  }
}
