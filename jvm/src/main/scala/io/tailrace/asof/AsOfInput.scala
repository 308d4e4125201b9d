package io.tailrace.asof

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.WatermarkRules.isLate
import io.tailrace.join.{JoinInput, JoinMetrics, StoredJoinContext}
import io.tailrace.state._

/** Reads the inputs of an as-of join: encodes keys, tells late rows from others, and left rows that are emitted in
  * this micro-batch from those that wait. Left rows without a time are emitted at once.
  *
  * @param through    left rows up to this time are emitted in this micro-batch
  * @param late       what becomes of late left rows
  */
private[asof] final class AsOfInput(
    context: StoredJoinContext,
    window: AsOfWindow,
    times: AsOfTimes,
    through: Long,
    writer: AsOfWriter,
    late: LateLefts,
    flush: () => Unit
) extends JoinInput(context, flush) {
  import context.{bufferBytes, columns, memory, metric, store}

  private val due = new FlushingRows(memory, bufferBytes, () => flushDue(), () => makeRoom())
  private val scratch = new ArrayBuffer[ScratchRun]

  /** The left rows that are emitted in this micro-batch and weren't in the state. */
  def dueSections: Seq[LiveSection] = scratch.iterator.flatMap(_.sections).toSeq

  override def readLeft(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = new Reading(rows, columns.left) {
    private val keys = columns.leftKeyEncoder()
    private val timeOrdinal = columns.leftTimeOrdinal
    // Right rows that points up to there would need may be gone.
    private val passed = window.leftExpiry(store.operatorTime)
    private val isDropped = late == LateLefts.Dropped
    private var lateRows = 0L
    private var timelessRows = 0L

    override protected def receive(row: UnsafeRow): UnsafeRow =
      if (row.isNullAt(timeOrdinal)) {
        timelessRows += 1
        writer.alone(row)
      } else {
        val time = row.getLong(timeOrdinal)
        if (isLate(time, times.lateWatermark) || isLate(time, passed)) {
          lateRows += 1
          if (isDropped) null else writer.late(row)
        } else {
          val keyLength = keys.encode(row)
          if (isLate(time, through)) due.append(keys.bytes, keyLength, time, store.newSeq(), row)
          else keep(lefts, keys.bytes, keyLength, time, row)
          null
        }
      }

    override protected def report(): Unit = {
      countLate(AsOfMetrics.LateLeftRows, lateRows, isDropped)
      metric(AsOfMetrics.FeaturesMissing) += timelessRows + (if (isDropped) 0L else lateRows)
    }
  }

  override def readRight(rows: Iterator[InternalRow]): Iterator[UnsafeRow] =
    new Reading(rows, columns.right) {
      private val keys = columns.rightKeyEncoder()
      private val timeOrdinal = columns.rightTimeOrdinal
      private val payload = columns.payloadProjection()

      // Left rows up to there have been emitted, by silence if the watermark is behind their points.
      private val missedThrough = window.point(store.expiredThrough)
      private var missing = 0L
      private var lateRows = 0L
      private var nullRows = 0L

      override protected def receive(row: UnsafeRow): UnsafeRow = {
        val keyLength = keys.encode(row)
        if (keyLength == 0 || row.isNullAt(timeOrdinal)) nullRows += 1
        else {
          val time = row.getLong(timeOrdinal)
          if (isLate(time, times.lateWatermark)) lateRows += 1
          else {
            if (time <= missedThrough) missing += 1
            keep(rights, keys.bytes, keyLength, time, payload(row))
          }
        }
        null
      }

      override protected def report(): Unit = {
        countLate(AsOfMetrics.LateRightRows, lateRows, isDropped = true)
        metric(AsOfMetrics.RowsAfterSilence) += missing
        metric(JoinMetrics.NullKeyRightRows) += nullRows
      }
    }

  override def makeRoom(): Boolean = !(left.isEmpty && right.isEmpty && due.rows.isEmpty) && {
    flush()
    flushDue()
    release()
    true
  }

  private def flushDue(): Unit = if (!due.rows.isEmpty) {
    scratch += store.scratch(SortedRows.all(StoreKind.LeftTimeSorted, due.rows, Long.MaxValue))
    due.rows.clear()
  }

  override def release(): Unit = {
    due.rows.release()
    super.release()
  }

  override def close(): Unit = {
    due.rows.close()
    scratch.foreach(_.close())
    scratch.clear()
    super.close()
  }

  private def countLate(name: String, rows: Long, isDropped: Boolean): Unit = {
    metric(name) += rows
    if (isDropped) metric("numRowsDroppedByWatermark") += rows
  }
}
