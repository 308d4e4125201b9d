package io.tailrace.label

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.{JoinMetrics, StoredJoinContext}
import io.tailrace.state.RowLayout

/** Reads the rows of an import into the state, as they are: there is no watermark yet, so none is late, and none is
  * emitted. The last column of a row says what its state says besides (see `join.ImportableJoin`):
  *
  * {{{
  *   left    12:00  false     waits for the end of its window
  *           11:20  true      was emitted, and may be amended
  *   right   12:03  null      is for each left row of its window
  *           12:04  7         is late in version 7: sequence numbers begin with it
  * }}}
  */
private[label] final class ImportedInput(
    context: StoredJoinContext,
    settings: JoinSettings,
    amendments: Option[Amendments],
    flush: () => Unit
) extends LabelRows(context, amendments, flush) {
  import context.{columns, metric, store}

  override def lateTaken: Long = 0L

  override def readLeft(rows: Iterator[InternalRow]): Iterator[UnsafeRow] = new Reading(rows, columns.left) {
    private val keys = columns.leftKeyEncoder()
    private val touch = columns.touchProjection()
    private val own = columns.leftProjection()
    private val timeOrdinal = columns.leftTimeOrdinal
    private val wasEmitted = columns.left.size

    override protected def receive(row: UnsafeRow): UnsafeRow = {
      val keyLength = keys.encode(row)
      val time = row.getLong(timeOrdinal)
      if (row.getBoolean(wasEmitted))
        amendments.filter(_ => keyLength > 0).foreach(_.keepEmitted(keys.bytes, keyLength, time, own(row)))
      else {
        if (keyLength > 0 || settings.isGrouped) keep(lefts, keys.bytes, keyLength, time, own(row))
        if (keyLength > 0) touch.foreach(of => keep(rights, keys.bytes, keyLength, time, of(row)))
      }
      null
    }

    override protected def report(): Unit = ()
  }

  override def readRight(rows: Iterator[InternalRow]): Iterator[UnsafeRow] =
    new Reading(rows, columns.right) {
      private val keys = columns.rightKeyEncoder()
      private val payload = columns.payloadProjection()
      private val timeOrdinal = columns.rightTimeOrdinal
      private val lateIn = columns.right.size
      private var late = 0L
      private var nullRows = 0L

      private def seqOf(row: UnsafeRow): Long =
        if (row.isNullAt(lateIn)) store.newSeq()
        else {
          late += 1
          RowLayout.firstSeq(row.getLong(lateIn)) + late
        }

      override protected def receive(row: UnsafeRow): UnsafeRow = {
        val keyLength = keys.encode(row)
        if (keyLength == 0 || row.isNullAt(timeOrdinal)) nullRows += 1
        else keepAs(seqOf(row), rights, keys.bytes, keyLength, row.getLong(timeOrdinal), payload(row))
        null
      }

      override protected def report(): Unit = metric(JoinMetrics.NullKeyRightRows) += nullRows
    }
}
