package io.tailrace.sync

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

import io.tailrace.join.{JoinInput, JoinMetrics, StoredJoinContext}
import io.tailrace.state.{OrderedRows, RowBuffer}

/** Reads the inputs of a synced join. A left row is released at once, or waits; a right row waits. Left rows
  * without a key or a time come out at once: nothing can match them. With `exactly_one` left rows that aren't released
  * stand among those that are ([[EarlyLeft]]).
  *
  * @param through left rows up to this time are released
  * @param joined  rows up to this time are joined; those beyond are emitted at once, marked
  * @param newKeys gets the right rows that the batch brings, with `exactly_one`
  */
private[sync] final class SyncInput(
    context: StoredJoinContext,
    through: Long,
    joined: Long,
    released: OrderedRows,
    writer: => SyncWriter,
    newKeys: Option[NewKeys],
    flush: () => Unit
) extends JoinInput(context, flush) {
  import context.{columns, metric, store}
  private var read = false

  override def readLeft(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = new Reading(rows, columns.left) {
    private val keys = columns.leftKeyEncoder()
    private val timeOrdinal = columns.leftTimeOrdinal
    // Left rows up to this time had been released when the batch before ended.
    private val before = store.expiredThrough
    private var alone = 0L
    private var late = 0L
    private var future = 0L

    override protected def receive(row: UnsafeRow): UnsafeRow = {
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
          if (time <= through || newKeys.nonEmpty) {
            if (time <= before && before != Long.MinValue) late += 1
            released.append(keys.bytes, keyLength, time, store.newSeq(), row)
          } else keep(lefts, keys.bytes, keyLength, time, row)
          null
        }
      }
    }

    override protected def report(): Unit = {
      metric(SyncMetrics.UnmatchedLeft) += alone
      metric(SyncMetrics.LateLeft) += late
      metric(SyncMetrics.FutureLeft) += future
    }
  }

  override def readRight(rows: Iterator[InternalRow]): Iterator[UnsafeRow] =
    new Reading(rows, columns.right) {
      private val keys = columns.rightKeyEncoder()
      private val timeOrdinal = columns.rightTimeOrdinal
      private val payload = columns.payloadProjection()
      private var nullRows = 0L
      private var future = 0L

      override protected def receive(row: UnsafeRow): UnsafeRow = {
        val keyLength = keys.encode(row)
        if (keyLength == 0 || row.isNullAt(timeOrdinal)) {
          nullRows += 1
          null
        } else if (row.getLong(timeOrdinal) > joined) {
          future += 1
          writer.futureRight(Arrays.copyOf(keys.bytes, keyLength), payload(row))
        } else {
          val time = row.getLong(timeOrdinal)
          newKeys.foreach(_.add(keys.bytes, Platform.BYTE_ARRAY_OFFSET.toLong, keyLength, time))
          keep(rights, keys.bytes, keyLength, time, payload(row))
          null
        }
      }

      override protected def report(): Unit = {
        metric(JoinMetrics.NullKeyRightRows) += nullRows
        metric(SyncMetrics.FutureRight) += future
      }
    }

  /** Keeps a row of the state, to write it again.
    *
    * @param base see [[io.tailrace.state.RowLayout]]
    */
  def carry(buffer: RowBuffer, base: AnyRef, at: Long): Unit =
    (if (buffer eq left) lefts else rights).appendRow(base, at)

  /** Bytes of the rows that are in memory. */
  def bytes: Long = left.bytes + right.bytes + released.bytes

  /** From here on rows are decided: right rows are addressed where they are, and stay there. */
  def endReading(): Unit = read = true
  def isRead: Boolean = read

  override def makeRoom(): Boolean = if (read) makeRoomOfLeft() else makeRoomOfAll()

  private def makeRoomOfAll(): Boolean = bytes > 0 && {
    released.release()
    flush()
    release()
    true
  }

  private def makeRoomOfLeft(): Boolean = !left.isEmpty && {
    flush()
    left.release()
    true
  }
}
