package io.tailrace.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** Rows of a batch by key, time and content. If they are more than fit in memory, they are sorted in parts, in local
  * files, and merged.
  */
private[tailrace] final class OrderedRows(
    store: TailraceStateStore,
    memory: RowMemory,
    bufferBytes: Long,
    makeRoom: () => Boolean
) extends AutoCloseable {
  private val gathered = new FlushingRows(memory, bufferBytes, () => spill(), makeRoom)
  private val rows = gathered.rows
  private val parts = new ArrayBuffer[ScratchRun]

  // The position: in memory, or in the files.
  private val byBytes = new ContentOrder(rows)
  private var order = new Array[Int](0)
  private var position = -1
  private var merged: Option[MergedSections] = None
  // The current row of the files, which are at the next one already.
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
    parts += store.scratch(SortedRows.ofSorted(ScratchKind.ByKeyTimeAndSeq, rows, byKey, Long.MaxValue, 1))
    rows.clear()
  }

  /** Does so, and gives all memory back. */
  def release(): Unit = {
    spill()
    rows.release()
  }

  /** Does so if there is a row in memory: see [[RowBuffer]]. @return whether there was one */
  def makeRoom(): Boolean = !rows.isEmpty && {
    release()
    true
  }

  /** Forgets all rows. It can be filled again. */
  def restart(): Unit = {
    closeParts()
    rows.clear()
    copied.clear()
    order = Array.emptyIntArray
    position = -1
    first = true
    last = true
  }

  private def closeParts(): Unit = {
    merged.foreach(_.close())
    merged = None
    parts.foreach(_.close())
    parts.clear()
  }

  /** Sorts the rows. All must have been appended. */
  def start(): Unit =
    if (parts.isEmpty) order = byBytes.sorted
    else {
      spill()
      merged = Some(
        new MergedSections(parts.flatMap(_.sections).toSeq, ContentOrder.compare(_, _), from = Long.MinValue)
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

  /** True if this row is the first one of its key. */
  def isFirst: Boolean = first

  /** True if it is the last one of its key. */
  def isLast: Boolean = last

  /** The position of the row, until the next one: see [[io.tailrace.state.RowLayout]]. */
  def base: AnyRef = if (!copied.isEmpty) copied.base(0) else rows.base(order(position))
  def at: Long = if (!copied.isEmpty) copied.at(0) else rows.at(order(position))
  def keyPrefix: Long = if (!copied.isEmpty) copied.keyPrefix(0) else rows.keyPrefix(order(position))

  override def close(): Unit = {
    closeParts()
    rows.close()
    copied.close()
  }
}

/** Notes behind the values of rows that are sorted as copies, which say where in the state they are:
  *
  * {{{
  *   value (8 n bytes)  seq(8)  section(4)
  * }}}
  *
  * Values have whole words, and a note isn't a whole number of words, so it tells such a row from others. No row's value is
  * the beginning of another one's, so notes decide between equal rows only. Sequence numbers of the copies themselves may
  * be those of their places in local files.
  */
private[tailrace] final class RowOrigins {
  import RowOrigins._

  private var noted = new Array[Byte](1024)

  /** A copy of a row, at [[RowOrigins.Start]], until the next call.
    *
    * @param section a number of its section, which the caller knows
    */
  def note(base: AnyRef, at: Long, section: Int): Array[Byte] = {
    val length = RowLayout.length(base, at)
    if (length + Words > noted.length) noted = new Array[Byte](Math.toIntExact(2 * (length + Words)))
    Platform.copyMemory(base, at, noted, Start, length)
    Platform.putLong(noted, Start + length, RowLayout.seq(base, at))
    Platform.putInt(noted, Start + length + 8, section)
    RowLayout.writeValueLength(noted, Start, RowLayout.valueLength(base, at) + NoteLength)
    noted
  }
}

private[tailrace] object RowOrigins {
  private val NoteLength = 12

  /** The room for a note. */
  private val Words = 16

  val Start: Long = Platform.BYTE_ARRAY_OFFSET.toLong

  def isNoted(base: AnyRef, at: Long): Boolean = (RowLayout.valueLength(base, at) & 7) != 0

  /** The length of a row's value, without the note. */
  def valueLength(base: AnyRef, at: Long): Int = {
    val length = RowLayout.valueLength(base, at)
    if ((length & 7) == 0) length else length - NoteLength
  }

  def seq(base: AnyRef, at: Long): Long = Platform.getLong(base, noteAt(base, at))
  def section(base: AnyRef, at: Long): Int = Platform.getInt(base, noteAt(base, at) + 8)

  private def noteAt(base: AnyRef, at: Long): Long =
    RowLayout.valueAt(base, at) + RowLayout.valueLength(base, at) - NoteLength
}

/** Rows by key and time, and rows of one key and time by their bytes, so that the row which gets a match doesn't
  * depend on arrival. Rows with one key and time are few if ids are
  * unique. If they aren't (an empty key, times in whole seconds), all rows may have one key and time.
  */
private[tailrace] class ContentOrder(rows: RowBuffer) extends IndexSort {
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

  /** True if two rows have different keys. */
  final def differs(a: Int, b: Int): Boolean =
    rows.keyPrefix(a) != rows.keyPrefix(b) || (!rows.prefixesAreKeys && rows.compareKeys(a, b) != 0)
}

private[tailrace] object ContentOrder {

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
