package io.tailrace.sync

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.common.{Mark, MarkedRows, Policy}
import io.tailrace.join.{JoinColumns, Pass}
import io.tailrace.state._

/** Gives the released left rows, each with its right row or with nulls. Marked duplicates follow it.
  *
  * @param early gives others, too, that have a right row
  */
private[sync] final class DecidedRows(
    columns: JoinColumns,
    settings: SyncSettings,
    released: OrderedRows,
    right: RightRows,
    early: Option[EarlyLeft],
    newWriter: => SyncWriter,
    metric: String => SQLMetric
) extends Pass {
  // Made for the first row: most tasks of a small batch have none.
  private lazy val writer = newWriter
  private val marks = settings.marksDuplicates
  private val leftRow = new UnsafeRow(columns.left.size)
  private val found = right.found
  private var isMarking = false
  private var matched = 0L
  private var unmatched = 0L
  private var duplicateLeft = 0L
  private var duplicateRight = 0L
  private var tooFar = 0L

  override protected def step(): UnsafeRow =
    if (isMarking) markOther()
    else if (released.next()) decide()
    else {
      right.endTaking()
      count()
      end()
      null
    }

  private def decide(): UnsafeRow = {
    val base = released.base
    val at = released.at
    val length = RowOrigins.valueLength(base, at)
    leftRow.pointTo(base, RowLayout.valueAt(base, at), length)
    right.take(released)
    isMarking = marks && found.count > 1
    if (found.count > 0) {
      matched += 1
      duplicateRight += found.count - 1
      early.foreach(_.emitted(base, at))
      writer.joined(leftRow, found.joinedBase, found.joinedAt)
    } else if (early.exists(_.waits(base, at))) null
    else if (released.isFirst) {
      unmatched += 1
      if (right.hasTooFar) tooFar += 1
      writer.leftAlone(leftRow, duplicate = false)
    } else {
      duplicateLeft += 1
      if (settings.onDuplicate == Policy.Drop) null else writer.leftAlone(leftRow, duplicate = marks)
    }
  }

  private def markOther(): UnsafeRow = {
    isMarking = found.nextOther()
    if (isMarking) writer.rightAlone(found.otherBase, found.otherAt, duplicate = true) else null
  }

  private def count(): Unit = {
    metric(SyncMetrics.Matched) += matched
    metric(SyncMetrics.UnmatchedLeft) += unmatched
    metric(SyncMetrics.DuplicateLeft) += duplicateLeft
    metric(SyncMetrics.DuplicateRight) += duplicateRight
    metric(SyncMetrics.TooFar) += tooFar
  }
}

/** Makes the rows that are emitted: the left columns, the right ones but the keys, then `_mark` if some rows
  * are emitted marked. Each is valid until the next one.
  */
private[sync] final class SyncWriter(columns: JoinColumns, settings: SyncSettings) {
  private val marks = settings.marks
  private val joiner = GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.payloadSchema)
  private lazy val marked = new MarkedRows(columns.left ++ columns.payload)
  private val noRight =
    UnsafeProjection.create(columns.payload.map(a => Literal(null, a.dataType)))(InternalRow.empty)
  private val rightRow = new UnsafeRow(columns.payload.size)

  private def ordinary(row: UnsafeRow): UnsafeRow = if (marks) marked.ordinary(row) else row

  private def duplicateOrNot(row: UnsafeRow, isMarked: Boolean): UnsafeRow =
    if (isMarked) marked(row, Mark.Duplicate) else ordinary(row)

  /** @param base the right row in the bytes of [[io.tailrace.state.RowLayout]] */
  def joined(left: UnsafeRow, base: AnyRef, at: Long): UnsafeRow =
    ordinary(joiner.join(left, valueOf(base, at)))

  def leftAlone(left: UnsafeRow, duplicate: Boolean): UnsafeRow =
    duplicateOrNot(joiner.join(left, noRight), duplicate)

  /** A left row ahead of the clock. */
  def futureLeft(left: UnsafeRow): UnsafeRow = marked(joiner.join(left, noRight), Mark.Future)

  /** A right row ahead of the clock. @param key encoded */
  def futureRight(key: Array[Byte], right: UnsafeRow): UnsafeRow =
    marked(joiner.join(keyOrNulls(decoder.decode(key)), right), Mark.Future)

  // Right rows seldom are emitted alone: the key is read from its encoding, and the left columns are projected.
  private lazy val decoder = new KeyDecoder(columns.rightKeys.map(_.dataType).toArray)
  private lazy val keyOrNulls = UnsafeProjection.create(columns.left.map { a =>
    val key = columns.leftKeys.indexWhere(_.exprId == a.exprId)
    if (key >= 0) BoundReference(key, a.dataType, nullable = false) else Literal(null, a.dataType)
  })

  /** @param base the right row in the bytes of [[io.tailrace.state.RowLayout]] */
  def rightAlone(base: AnyRef, at: Long, duplicate: Boolean): UnsafeRow =
    duplicateOrNot(
      joiner.join(keyOrNulls(decoder.decode(RowLayout.keyBytes(base, at))), valueOf(base, at)),
      duplicate
    )

  private def valueOf(base: AnyRef, at: Long): UnsafeRow = {
    rightRow.pointTo(base, RowLayout.valueAt(base, at), RowLayout.valueLength(base, at))
    rightRow
  }
}

/** The left rows that may be emitted before they are released, because the user has declared that a left row has at
  * most one right row, and a right row at most one left row. They are merged with the released rows, and are emitted
  * only with a right row:
  *
  * {{{
  *   new left rows ────────────────────────────────┐
  *   held-left: rows that may have a new right row ─┴─> by key ──┬─> found: emitted, and the row of the state is marked
  *                                                               └─> not found: it stays, or is written into held-left
  * }}}
  *
  * [[io.tailrace.state.RowOrigins]] tell the rows of the state from new ones.
  *
  * @param through rows up to this time are released
  * @param keep    takes a row that waits, to be written
  */
private[sync] final class EarlyLeft(
    store: TailraceStateStore,
    through: Long,
    bufferedLeft: BufferedLeft,
    released: OrderedRows,
    keep: (AnyRef, Long) => Unit
) {
  import EarlyLeft._

  private val origins = new RowOrigins

  /** Adds a row of the state. @param section its number, or [[EarlyLeft.Carried]] */
  def add(row: RunCursor, section: Int): Unit =
    released.append(origins.note(row.base, row.at, section), RowOrigins.Start)

  /** A row is emitted with its right row. */
  def emitted(base: AnyRef, at: Long): Unit = if (RowOrigins.isNoted(base, at)) {
    val section = RowOrigins.section(base, at)
    if (section == Carried) bufferedLeft.takeCarried()
    else bufferedLeft.take(section, RowOrigins.seq(base, at))
  }

  /** A row has no right row. @return whether it stays buffered; otherwise it is released */
  def waits(base: AnyRef, at: Long): Boolean = RowLayout.time(base, at) > through && {
    if (!RowOrigins.isNoted(base, at)) {
      // Its number may be that of its place in a local file.
      RowLayout.writeSeq(base, at, store.newSeq())
      keep(base, at)
    } else if (RowOrigins.section(base, at) == Carried) {
      RowLayout.writeSeq(base, at, RowOrigins.seq(base, at))
      RowLayout.writeValueLength(base, at, RowOrigins.valueLength(base, at))
      keep(base, at)
    }
    true
  }
}

private[sync] object EarlyLeft {

  /** In place of a section: the row's run is dropped, and its buffered rows are written again. */
  val Carried: Int = -1
}
