package io.tailrace.sync

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner

import io.tailrace.common.{FlaggedRows, OnFuture}
import io.tailrace.join.JoinColumns
import io.tailrace.state.{KeyDecoder, RowLayout}

/** Writes the rows that come out: the left columns, the right ones but the keys, then `_duplicate` where duplicates are
  * diverted, then `future` where rows ahead of the clock are. Each is valid until the next one.
  */
private[sync] final class SyncWriter(columns: JoinColumns, settings: SyncSettings) {
  private val marked = settings.duplicates == Duplicates.Divert
  private val marksFuture = settings.onFuture == OnFuture.Divert
  private val joiner = GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.payloadSchema)
  private lazy val marker = new FlaggedRows(columns.left ++ columns.payload)
  private lazy val futureMarker = new FlaggedRows(columns.left ++ columns.payload ++ columns.added.init)
  private val noRight = nulls(columns.payload)
  private val rightRow = new UnsafeRow(columns.payload.size)

  private def nulls(attributes: Seq[Attribute]): UnsafeRow =
    UnsafeProjection.create(attributes.map(a => Literal(null, a.dataType)))(InternalRow.empty).copy()

  private def mark(row: UnsafeRow, duplicate: Boolean, future: Boolean = false): UnsafeRow = {
    val flagged = if (!marked) row else marker(row, duplicate)
    if (!marksFuture) flagged else futureMarker(flagged, future)
  }

  /** @param base the right row in the bytes of [[io.tailrace.state.RowLayout]] */
  def joined(left: UnsafeRow, base: AnyRef, at: Long): UnsafeRow =
    mark(joiner.join(left, valueOf(base, at)), false)

  def leftAlone(left: UnsafeRow, duplicate: Boolean): UnsafeRow = mark(joiner.join(left, noRight), duplicate)

  /** A left row ahead of the clock. */
  def futureLeft(left: UnsafeRow): UnsafeRow = mark(joiner.join(left, noRight), false, future = true)

  /** A right row ahead of the clock. @param key encoded */
  def futureRight(key: Array[Byte], right: UnsafeRow): UnsafeRow =
    mark(joiner.join(keyOrNulls(decoder.decode(key)), right), false, future = true)

  // A right row comes out alone seldom: its key is read from its encoding, and the left columns are projected.
  private lazy val decoder = new KeyDecoder(columns.rightKeys.map(_.dataType).toArray)
  private lazy val keyOrNulls = UnsafeProjection.create(columns.left.map { a =>
    val key = columns.leftKeys.indexWhere(_.exprId == a.exprId)
    if (key >= 0) BoundReference(key, a.dataType, nullable = false) else Literal(null, a.dataType)
  })

  /** @param base the right row in the bytes of [[io.tailrace.state.RowLayout]] */
  def rightAlone(base: AnyRef, at: Long, duplicate: Boolean): UnsafeRow =
    mark(joiner.join(keyOrNulls(decoder.decode(RowLayout.keyBytes(base, at))), valueOf(base, at)), duplicate)

  private def valueOf(base: AnyRef, at: Long): UnsafeRow = {
    rightRow.pointTo(base, RowLayout.valueAt(base, at), RowLayout.valueLength(base, at))
    rightRow
  }
}
