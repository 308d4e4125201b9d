package io.tailrace.sync

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner

import io.tailrace.common.{Mark, MarkedRows}
import io.tailrace.join.JoinColumns
import io.tailrace.state.{KeyDecoder, RowLayout}

/** Writes the rows that come out: the left columns, the right ones but the keys, then `_mark` where duplicates or
  * rows ahead of the clock come out marked. Each is valid until the next one.
  */
private[sync] final class SyncWriter(columns: JoinColumns, settings: SyncSettings) {
  private val marks = settings.marks
  private val joiner = GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.payloadSchema)
  private lazy val marked = new MarkedRows(columns.left ++ columns.payload)
  private val noRight = nulls(columns.payload)
  private val rightRow = new UnsafeRow(columns.payload.size)

  private def nulls(attributes: Seq[Attribute]): UnsafeRow =
    UnsafeProjection.create(attributes.map(a => Literal(null, a.dataType)))(InternalRow.empty).copy()

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

  // A right row comes out alone seldom: its key is read from its encoding, and the left columns are projected.
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
