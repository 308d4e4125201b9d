package io.tailrace.sync

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.state._

/** The left rows of the state in one batch.
  *
  * @param through rows up to this time are released
  */
private[sync] final class HeldLeft(store: TailraceStateStore, through: Long) {
  private val before = store.expiredThrough
  private val taken = mutable.HashMap.empty[(String, Long), Long]
  private var gone = 0L

  private def key(live: LiveSection): (String, Long) = (live.local.name, live.section.bucket)

  /** Hands out the living rows of a run. The caller then drops the run.
    *
    * @param release takes the row at the cursor, which is released
    * @param keep    takes the row at the cursor, which waits
    */
  def carry(run: LocalRun, release: RunCursor => Unit, keep: RunCursor => Unit): Unit =
    sections.filter(_.local eq run).foreach { live =>
      read(live) { cursor =>
        while (cursor.isValid) {
          if (cursor.time <= through) {
            release(cursor)
            gone += 1
          } else keep(cursor)
          cursor.next()
        }
      }
    }

  /** Hands out all rows that are released. */
  def release(row: RunCursor => Unit): Unit =
    sections.filter(_.section.minTime <= through).foreach { live =>
      read(live) { cursor =>
        var count = 0L
        while (cursor.isValid && cursor.time <= through) {
          row(cursor)
          count += 1
          cursor.next()
        }
        taken(key(live)) = count
        gone += count
      }
    }

  private def sections: Seq[LiveSection] = store.sectionsOf(StoreKind.HeldLeft)

  private def read(live: LiveSection)(body: RunCursor => Unit): Unit = {
    val cursor = live.cursor()
    try {
      cursor.firstAfter(before)
      body(cursor)
    } finally cursor.close()
  }

  /** Tells the store which rows have come out. @return how many have */
  def settle(): Long = {
    store.markExpired(StoreKind.HeldLeft, through, live => taken.getOrElse(key(live), 0L))
    store.dropThrough(StoreKind.HeldLeft, through)
    gone
  }
}

/** The left rows that are released in a batch, by key, time and bytes. After a long stall they may be more
  * than fit in memory: then they are sorted in parts, in local files, and merged.
  */
private[sync] final class ReleasedRows(
    store: TailraceStateStore,
    memory: RowMemory,
    bufferBytes: Long,
    makeRoom: () => Boolean
) extends AutoCloseable {
  private val gathered = new FlushingRows(memory, bufferBytes, () => spill(), makeRoom)
  private val rows = gathered.rows
  private val parts = new ArrayBuffer[ScratchRun]

  // The position: in memory, or in the files.
  private val byBytes = new ReleasedOrder(rows)
  private var order = new Array[Int](0)
  private var position = -1
  private var merged: Option[MergedSections] = None
  // Of the files: this row, when the files are at the next one.
  private val copied = new RowBuffer(memory).prepare()

  private var first = true
  private var last = true

  def append(key: Array[Byte], keyLength: Int, time: Long, seq: Long, value: UnsafeRow): Unit =
    gathered.append(key, keyLength, time, seq, value)

  /** @param base see [[io.tailrace.state.RowLayout]] */
  def append(base: AnyRef, at: Long): Unit = gathered.appendRow(base, at)

  /** Bytes of the rows that are in memory. */
  def bytes: Long = rows.bytes

  /** Writes the rows in memory into a local file. */
  def spill(): Unit = if (!rows.isEmpty) {
    val byKey = byBytes.sorted
    // A run has rows of one key and time in the order of their numbers. Here they are in that of their bytes.
    byKey.indices.foreach(i => rows.renumber(byKey(i), i.toLong))
    // This gives one bucket, or two if there are times before the epoch.
    parts += store.scratch(SortedRows.ofSorted(StoreKind.HeldRight, rows, byKey, Long.MaxValue, 1))
    rows.clear()
  }

  /** Does so, and gives all memory back. */
  def release(): Unit = {
    spill()
    rows.release()
  }

  /** Sorts the rows. All must have been appended. */
  def start(): Unit =
    if (parts.isEmpty) order = byBytes.sorted
    else {
      spill()
      merged = Some(
        new MergedSections(parts.flatMap(_.sections).toSeq, ReleasedOrder.compare(_, _), from = Long.MinValue)
      )
    }

  /** Goes on to the next row. @return false if there is none */
  def next(): Boolean = {
    first = last
    merged match {
      case Some(files) => nextMerged(files)
      case None =>
        position += 1
        if (position < order.length)
          last = position + 1 == order.length || byBytes.differs(order(position), order(position + 1))
        position < order.length
    }
  }

  private def nextMerged(files: MergedSections): Boolean = {
    copied.clear()
    if (!files.isEmpty) {
      copied.appendRow(files.head.base, files.head.at)
      files.drop()
      last = files.isEmpty || files.head.compareKey(copied.base(0), copied.at(0)) != 0
    }
    !copied.isEmpty
  }

  /** Whether this row is the first one of its key. */
  def isFirst: Boolean = first

  /** Whether it is the last one of its key. */
  def isLast: Boolean = last

  /** The position of the row, until the next one: see [[io.tailrace.state.RowLayout]]. */
  def base: AnyRef = if (!copied.isEmpty) copied.base(0) else rows.base(order(position))
  def at: Long = if (!copied.isEmpty) copied.at(0) else rows.at(order(position))
  def keyPrefix: Long = if (!copied.isEmpty) copied.keyPrefix(0) else rows.keyPrefix(order(position))

  override def close(): Unit = {
    merged.foreach(_.close())
    parts.foreach(_.close())
    parts.clear()
    rows.close()
    copied.close()
  }
}

/** The order in which rows are released: by key and time, and rows of one key and time by their bytes, so
  * that the row which gets the match doesn't depend on arrival. Rows with one key and time are few if ids are
  * unique. If they aren't (an empty key, times in whole seconds), all rows may have one key and time.
  */
private[sync] class ReleasedOrder(rows: RowBuffer) extends IndexSort {
  override protected def compare(a: Int, b: Int): Int =
    RowLayout.compareValues(rows.base(a), rows.at(a), rows.base(b), rows.at(b))

  def sorted: Array[Int] = {
    val order = RowSort.byKeyTimeAndSeq(rows)
    var start = 0
    while (start < order.length) {
      var end = start + 1
      while (end < order.length && isTie(order(start), order(end))) end += 1
      sort(order, start, end)
      start = end
    }
    order
  }

  private def isTie(a: Int, b: Int): Boolean = rows.time(a) == rows.time(b) && !differs(a, b)

  /** Whether two rows have different keys. */
  final def differs(a: Int, b: Int): Boolean =
    rows.keyPrefix(a) != rows.keyPrefix(b) || (!rows.prefixesAreKeys && rows.compareKeys(a, b) != 0)
}

private object ReleasedOrder {

  /** The same order for rows in files. Rows of equal bytes are told apart by their numbers. */
  def compare(a: RunCursor, b: RunCursor): Int = {
    val byKey = a.compareKey(b.base, b.at)
    if (byKey != 0) byKey
    else if (a.time != b.time) java.lang.Long.compare(a.time, b.time)
    else {
      val byValue = RowLayout.compareValues(a.base, a.at, b.base, b.at)
      if (byValue != 0) byValue else java.lang.Long.compare(a.seq, b.seq)
    }
  }
}
