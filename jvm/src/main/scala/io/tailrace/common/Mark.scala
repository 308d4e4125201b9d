package io.tailrace.common

import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Literal, UnsafeRow}
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** The reason why a row isn't an ordinary one, in its column `_mark`. The column is null in ordinary rows.
  *
  * This list is complete. A test compares it with Python's `tailrace.Reason` and the table of the documentation.
  */
sealed abstract class Mark(val reason: String) {

  /** The column of one row, as [[MarkedRows]] appends it. */
  private[common] val row: UnsafeRow = MarkRow(Some(reason))

  def text: UTF8String = UTF8String.fromString(reason)
}

object Mark {

  /** A left row of `join` at or before the watermark. */
  case object LateLeft extends Mark("late_left")

  /** A right row of `join` at or before the watermark. */
  case object LateRight extends Mark("late_right")

  /** A right row of `join` that no left row of its key and window has, with orphans. */
  case object UnmatchedRight extends Mark("unmatched_right")

  /** A right row of `join` without a key or a time, with orphans. */
  case object NullRight extends Mark("null_right")

  /** The new group of a left row of `join` that has been emitted before. */
  case object Amended extends Mark("amended")

  /** A left row of `join` that is emitted without the rows of a stream that has stalled. */
  case object Excluded extends Mark("excluded")

  /** A record of `filter_replays` that was written again. */
  case object Replay extends Mark("replay")

  /** A further row of a key of `sync_join`. */
  case object Duplicate extends Mark("duplicate")

  /** A row of `sync_join` or of a watermark whose event time is too far ahead of the clock. */
  case object Future extends Mark("future")

  /** A row of `recursively` that closes a cycle. */
  case object Cycle extends Mark("cycle")

  val values: Seq[Mark] =
    Seq(LateLeft, LateRight, UnmatchedRight, NullRight, Amended, Excluded, Replay, Duplicate, Future, Cycle)

  /** Those of right rows that no left row has: orphans. */
  val orphans: Seq[Mark] = Seq(UnmatchedRight, NullRight, LateRight)

  val Column = "_mark"

  /** The schema of the column on its own. */
  val Schema: StructType = new StructType().add(Column, StringType)

  /** The value of ordinary rows. */
  val None: Literal = Literal(null, StringType)

  private[common] val ordinary: UnsafeRow = MarkRow(scala.None)

  def attribute(): Attribute = AttributeReference(Column, StringType)()
}

/** Makes the column of one row. [[Mark]]'s companion must not have this: each mark's constructor would
  * initialize the companion, and the companion each mark. Two tasks that begin with different marks would
  * wait for each other indefinitely.
  */
private object MarkRow {
  def apply(reason: Option[String]): UnsafeRow = {
    val writer = new UnsafeRowWriter(1, 32)
    writer.reset()
    writer.zeroOutNullBytes()
    reason.fold(writer.setNullAt(0))(text => writer.write(0, UTF8String.fromString(text)))
    writer.getRow.copy()
  }
}
