package io.tailrace.state

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.tailrace.UnsafeRowPair
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.StepwiseRows

/** The rows that Spark's state reader sees: each row of the state once, without marks and marked rows.
  *
  * @param passedThrough right rows that are sorted by time have been used up to there
  */
private[state] final class BufferedRows(
    sections: Seq[LiveSection],
    expiredThrough: Long,
    passedThrough: Long = Long.MinValue
) extends StepwiseRows[UnsafeRowPair]
    with AutoCloseable {
  private val pending = sections.iterator.filter(_.section.kind.hasRows)
  private var cursor: Option[RunCursor] = None
  private var kind: StoreKind = _
  private var gone = new GoneRows
  // Sections come run by run, so each kind comes many times.
  private val goneOf = mutable.Map.empty[StoreKind, GoneRows]
  private val keyRow = UnsafeProjection.create(BufferedRows.KeySchema)
  private val valueRow = UnsafeProjection.create(BufferedRows.ValueSchema)

  override protected def step(): UnsafeRowPair = cursor match {
    case Some(at) if at.isValid =>
      val row = if (gone.contains(at.seq)) null else rowAt(at)
      at.next()
      row
    case _ =>
      close()
      if (pending.hasNext) open(pending.next()) else end()
      null
  }

  private def open(live: LiveSection): Unit = {
    val opened = live.cursor()
    cursor = Some(opened)
    if (kind != live.section.kind) {
      kind = live.section.kind
      gone = goneOf.getOrElseUpdate(kind, GoneRows.of(sections, kind))
    }
    opened.firstAfter(if (kind == StoreKind.RightTimeSorted) passedThrough else expiredThrough)
  }

  private def rowAt(at: RunCursor): UnsafeRowPair = {
    val key = InternalRow(UTF8String.fromString(kind.name), at.time, at.seq, at.keyBytes)
    new UnsafeRowPair(keyRow(key).copy(), valueRow(InternalRow(at.valueBytes)).copy())
  }

  override def close(): Unit = {
    cursor.foreach(_.close())
    cursor = None
  }
}

object BufferedRows {

  /** `key` is the encoding of [[KeyEncoder]]. The provider recognizes Tailrace's stores by this schema, and
    * not by a name: Spark's state reader takes an operator with a named store for one of Spark's joins.
    */
  val KeySchema: StructType = new StructType()
    .add("tailrace_store", StringType, nullable = false)
    .add("event_time", TimestampType, nullable = false)
    .add("seq", LongType, nullable = false)
    .add("key", BinaryType, nullable = false)

  def isKeySchema(schema: StructType): Boolean =
    schema.map(f => f.name -> f.dataType) == KeySchema.map(f => f.name -> f.dataType)

  /** `row` is a row in Spark's binary row format. */
  val ValueSchema: StructType = new StructType().add("row", BinaryType, nullable = false)
}
