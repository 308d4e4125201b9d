package io.tailrace.state

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.tailrace.UnsafeRowPair
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.roaringbitmap.longlong.Roaring64Bitmap

import io.tailrace.common.{OnFailure, StepwiseRows}

/** The rows of a version that still count: the one rule for merges, for the readers of the state, and for commands that
  * write it again. A section is immutable, so it keeps rows that have left the state, until a merge leaves them out or all
  * of the section is dropped. A row has left when its store's time ([[Expiry]]) has reached it, or when it has a tombstone:
  *
  * {{{
  *   results through 12:00, operator's time 12:10, tombstone: row 7
  *
  *   left-key-sorted     11:59   12:01 row 7   12:04             counts: 12:04
  *   right-time-sorted   11:59   12:05         12:11             counts: 12:11
  *   right-key-sorted    11:59   12:05         12:11             all count: its rows leave with their section
  * }}}
  *
  * A row that counts may be of no use to the join any more: the join knows, by watermarks and windows. In stores that keep
  * the newest row of a key, merges leave out superseded rows as well ([[NewestRows]]).
  *
  * @param sections all of the version
  */
final class LivingRows(sections: Seq[LiveSection], val expiry: Expiry) {
  // Sections come run by run, so each store comes many times. To read its tombstones once is enough.
  private val inStore = mutable.HashMap.empty[StoreKind, LivingRows.InStore]

  /** The rule for the rows of one store. */
  def in(kind: StoreKind): LivingRows.InStore =
    inStore.getOrElseUpdate(
      kind,
      new LivingRows.InStore(expiry.through(kind), () => GoneRows.of(sections, kind))
    )

  /** A cursor over the rows of a section that count. */
  def cursor(live: LiveSection): LivingCursor = in(live.section.kind).cursor(live)

  /** Calls `row` with the cursor at each row of a section that counts. */
  def foreachRow(live: LiveSection)(row: RunCursor => Unit): Unit = {
    val rows = cursor(live)
    try
      while (rows.isValid) {
        row(rows.row)
        rows.next()
      }
    finally rows.close()
  }
}

object LivingRows {
  def of(state: LoadedState): LivingRows = new LivingRows(state.sections, state.manifest.expiry)

  /** The rows of one store that count.
    *
    * @param through    rows up to this time have left
    * @param tombstones reads them, when the first row after that time is checked
    */
  final class InStore(val through: Long, tombstones: () => GoneRows) {
    private var read: GoneRows = _

    /** The rows with tombstones. */
    def gone: GoneRows = {
      if (read == null) read = tombstones()
      read
    }

    def counts(row: RunCursor): Boolean = row.time > through && !gone.contains(row.seq)

    /** The same rule, without rows up to a time. */
    def after(time: Long): InStore = if (time <= through) this else new InStore(time, () => gone)

    /** No row of a section that counts is before this time. */
    def notBefore(section: Section): Long = Expiry.notBefore(section, through)

    /** A cursor at the first row of a section that counts. */
    def cursor(live: LiveSection): LivingCursor = new LivingCursor(live.cursor(), this)
  }
}

/** Goes from one row that counts to the next, in the order of a section. */
final class LivingCursor private[state] (cursor: RunCursor, rule: LivingRows.InStore) extends AutoCloseable {
  OnFailure(cursor.close()) {
    cursor.firstAfter(rule.through)
    settle()
  }

  private def settle(): Unit = while (cursor.isValid && !rule.counts(cursor)) cursor.next()

  def isValid: Boolean = cursor.isValid

  /** The row, until [[next]]. */
  def row: RunCursor = cursor

  def next(): Unit = {
    cursor.next()
    settle()
  }

  override def close(): Unit = cursor.close()
}

/** The rows of a store that have tombstones, by sequence number. Numbers of a batch are close together, so they take at
  * most about two bytes each.
  */
final class GoneRows {
  private val seqs = new Roaring64Bitmap
  // Most stores have no such rows, and this is checked for each row that is read.
  private var any = false

  def add(seq: Long): Unit = {
    seqs.addLong(seq)
    any = true
  }

  def contains(seq: Long): Boolean = any && seqs.contains(seq)

  def size: Long = seqs.getLongCardinality

  /** Bytes of memory. */
  def bytes: Long = seqs.getLongSizeInBytes
}

object GoneRows {

  /** Reads the tombstones of a store.
    *
    * @param sections all of a version
    */
  def of(sections: Seq[LiveSection], kind: StoreKind): GoneRows = {
    val gone = new GoneRows
    marking(sections, kind).foreach(_.foreachRow(cursor => gone.add(cursor.seq)))
    gone
  }

  /** The sections with the tombstones of a store. */
  private[state] def marking(sections: Seq[LiveSection], kind: StoreKind): Seq[LiveSection] =
    sections.filter(_.section.kind.marks.contains(kind))
}

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
