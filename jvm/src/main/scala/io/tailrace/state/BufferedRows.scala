package io.tailrace.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.tailrace.UnsafeRowPair
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.StepwiseRows

/** The rows that Spark's state reader sees: each row of the state that counts, once. */
private[state] final class BufferedRows(sections: Seq[LiveSection], expiry: Expiry)
    extends StepwiseRows[UnsafeRowPair]
    with AutoCloseable {
  private val living = new LivingRows(sections, expiry)
  private val pending = sections.iterator.filter(_.section.kind.hasRows)
  private var cursor: Option[LivingCursor] = None
  private var kind: StoreKind = _
  private val keyRow = UnsafeProjection.create(BufferedRows.KeySchema)
  private val valueRow = UnsafeProjection.create(BufferedRows.ValueSchema)

  override protected def step(): UnsafeRowPair = cursor match {
    case Some(at) if at.isValid =>
      val row = rowAt(at.row)
      at.next()
      row
    case _ =>
      close()
      if (pending.hasNext) {
        val live = pending.next()
        kind = live.section.kind
        cursor = Some(living.cursor(live))
      } else end()
      null
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
