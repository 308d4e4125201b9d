package io.tailrace.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** What the state reader sees: each buffered row once, with its store, event time and sequence number. Marks are no rows:
  * the rows that they are about are left out.
  */
private[state] final class BufferedRows(sections: Seq[LiveSection], expiredThrough: Long)
    extends Iterator[UnsafeRowPair]
    with AutoCloseable {
  private val pending = sections.iterator.filter(_.section.kind.hasRows)
  private lazy val joined = JoinedMarks.of(sections)
  private var current: Option[(RunCursor, StoreKind)] = None
  private val keyRow = UnsafeProjection.create(BufferedRows.KeySchema)
  private val valueRow = UnsafeProjection.create(BufferedRows.ValueSchema)
  private val pair = new UnsafeRowPair

  private def advance(): Boolean = {
    skipJoined()
    while (current.forall(!_._1.isValid)) {
      close()
      if (!pending.hasNext) return false
      val live = pending.next()
      val cursor = live.cursor()
      current = Some(cursor -> live.section.kind)
      cursor.firstAfter(expiredThrough)
      skipJoined()
    }
    true
  }

  private def skipJoined(): Unit = current.foreach { case (cursor, kind) =>
    if (kind == StoreKind.HeldRight) while (cursor.isValid && joined.contains(cursor.seq)) cursor.next()
  }

  override def hasNext: Boolean = advance()

  override def next(): UnsafeRowPair = {
    if (!advance()) throw new NoSuchElementException("no more rows")
    val (cursor, kind) = current.get
    val row = InternalRow(UTF8String.fromString(kind.name), cursor.time, cursor.seq, cursor.keyBytes)
    pair.withRows(keyRow(row).copy(), valueRow(InternalRow(cursor.valueBytes)).copy())
    cursor.next()
    pair
  }

  override def close(): Unit = {
    current.foreach(_._1.close())
    current = None
  }
}

object BufferedRows {

  /** `key` is the encoding of [[KeyEncoder]]; `event_time` is the row's time column. The provider knows Tailrace's stores
    * by this schema: a store name of their own would do as well, but Spark's state reader takes every operator with a
    * named store for one of its joins.
    */
  val KeySchema: StructType = new StructType()
    .add("tailrace_store", StringType, nullable = false)
    .add("event_time", TimestampType, nullable = false)
    .add("seq", LongType, nullable = false)
    .add("key", BinaryType, nullable = false)

  def isKeySchema(schema: StructType): Boolean =
    schema.map(f => f.name -> f.dataType) == KeySchema.map(f => f.name -> f.dataType)

  /** @note `row` is a row in Spark's binary row format */
  val ValueSchema: StructType = new StructType().add("row", BinaryType, nullable = false)
}
