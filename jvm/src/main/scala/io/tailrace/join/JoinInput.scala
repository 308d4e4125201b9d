package io.tailrace.join

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.state.{RowBuffer, RowMemory, TailraceStateStore}

/** Reads both inputs of a task into its buffers, a row at a time: encodes the key, tells late rows from others, and has
  * the buffers written out as a run whenever they hold too much.
  */
final class JoinInput(
    columns: JoinColumns,
    settings: JoinSettings,
    store: TailraceStateStore,
    memory: RowMemory,
    lateWatermark: Long,
    metric: String => SQLMetric
) extends AutoCloseable {
  val left = new RowBuffer(memory)
  val right = new RowBuffer(memory)

  /** Rows that come out by themselves, as they come out: late ones, and left rows without a time. */
  val alone = new RowBuffer(memory)

  private val NoKey = new Array[Byte](0)

  private def emitAlone(row: UnsafeRow): Unit =
    alone.append(NoKey, 0, 0L, 0L, row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)

  private def unsafe(rows: Iterator[InternalRow], toUnsafe: => UnsafeProjection): Iterator[UnsafeRow] = {
    lazy val projection = toUnsafe
    rows.map {
      case row: UnsafeRow => row
      case row => projection(row)
    }
  }

  def readLeft(rows: Iterator[InternalRow], bytes: Long)(flush: => Unit): Long = {
    val keys = columns.leftKeyEncoder()
    val timeOrdinal = columns.leftTimeOrdinal
    lazy val late = columns.leftAlone(settings, late = true)
    lazy val timeless = columns.leftAlone(settings, late = false)
    val expired = if (settings.isGrouped) store.expiredThrough else Long.MinValue
    var lateRows = 0L
    var timelessRows = 0L
    var kept = 0L
    unsafe(rows, UnsafeProjection.create(columns.left, columns.left)).foreach { row =>
      if (row.isNullAt(timeOrdinal)) {
        // It has no window, so nothing can match it: a negative, known at once.
        timelessRows += 1
        if (settings.isGrouped) emitAlone(timeless(row))
      } else {
        val time = row.getLong(timeOrdinal)
        // What has expired is asked too: such a row would wait in the state and never come out.
        if (JoinWindow.isLate(time, lateWatermark) || JoinWindow.isLate(time, expired)) {
          lateRows += 1
          if (settings.emitLate) emitAlone(late(row))
        } else {
          val keyLength = keys.encode(row)
          // A pair needs two keys, a group is owed to each left row.
          if (keyLength > 0 || settings.isGrouped) {
            kept += 1
            left.append(
              keys.bytes,
              keyLength,
              time,
              store.newSeq(),
              row.getBaseObject,
              row.getBaseOffset,
              row.getSizeInBytes
            )
            if (left.bytes > bytes) flush
          }
        }
      }
    }
    countLate(JoinMetrics.LateLeftRows, lateRows)
    if (settings.isGrouped) {
      metric(JoinMetrics.GroupsOut) += timelessRows
      metric(JoinMetrics.GroupsUnmatched) += timelessRows
    }
    kept
  }

  def readRight(rows: Iterator[InternalRow], bytes: Long)(flush: => Unit): Long = {
    val keys = columns.rightKeyEncoder()
    val timeOrdinal = columns.rightTimeOrdinal
    val payload = columns.payloadProjection()
    lazy val late = columns.rightAlone(settings)
    var lateRows = 0L
    var nullRows = 0L
    var kept = 0L
    unsafe(rows, UnsafeProjection.create(columns.right, columns.right)).foreach { row =>
      val keyLength = keys.encode(row)
      if (keyLength == 0 || row.isNullAt(timeOrdinal)) nullRows += 1
      else {
        val time = row.getLong(timeOrdinal)
        if (JoinWindow.isLate(time, lateWatermark)) {
          lateRows += 1
          if (settings.emitLate) emitAlone(late(row))
        } else {
          kept += 1
          val value = payload(row)
          right.append(
            keys.bytes,
            keyLength,
            time,
            store.newSeq(),
            value.getBaseObject,
            value.getBaseOffset,
            value.getSizeInBytes
          )
          if (right.bytes > bytes) flush
        }
      }
    }
    countLate(JoinMetrics.LateRightRows, lateRows)
    metric(JoinMetrics.NullKeyRightRows) += nullRows
    kept
  }

  private def countLate(name: String, rows: Long): Unit = {
    metric(name) += rows
    if (!settings.emitLate) metric("numRowsDroppedByWatermark") += rows
  }

  /** The rows of [[alone]]; each is valid until the next one. */
  def aloneRows(fields: Int): Iterator[UnsafeRow] = {
    val row = new UnsafeRow(fields)
    Iterator.range(0, alone.size).map { i =>
      row.pointTo(alone.base(i), alone.valueOffset(i), alone.valueLength(i))
      row
    }
  }

  override def close(): Unit = Seq(left, right, alone).foreach(_.close())
}
