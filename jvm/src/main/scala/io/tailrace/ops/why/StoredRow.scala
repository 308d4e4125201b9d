package io.tailrace.ops.why

import org.apache.spark.unsafe.Platform

import io.tailrace.common.Side
import io.tailrace.state.{RowLayout, RunCursor, StoreKind}

/** A row of a join's state, without its payload.
  *
  * @param key  in the bytes of [[RowLayout]], for a search; empty keys are those with a null
  * @param side of the join
  */
private[why] final case class StoredRow(
    partition: Int,
    side: Side,
    time: Long,
    seq: Long,
    key: Array[Byte]
) {

  /** The micro-batch that has brought it: it made the version that the number begins with. */
  def batch: Long = (seq >>> 32) - 1

  def keyBytes: Array[Byte] = RowLayout.keyBytes(key, StoredRow.Start)
}

private[why] object StoredRow {
  val Start: Long = Platform.BYTE_ARRAY_OFFSET.toLong

  /** The row at a cursor. */
  def at(partition: Int, kind: StoreKind, cursor: RunCursor): StoredRow = {
    val key = new Array[Byte](RowLayout.length(RowLayout.keyLength(cursor.base, cursor.at), 0).toInt)
    RowLayout.copyKey(cursor.base, cursor.at, key, Start)
    StoredRow(partition, kind.side.get, cursor.time, cursor.seq, key)
  }

  def isLeft(kind: StoreKind): Boolean = kind.side.contains(Side.Left)
}
