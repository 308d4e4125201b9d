package io.tailrace.replay

import java.io.{DataOutputStream, OutputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{BufferUnderflowException, ByteBuffer}
import java.util.Arrays

import scala.collection.mutable

import io.tailrace.checkpoint.{CheckedBytes, ExactBytes}

/** The high-water mark of each origin, which is a producer and source partition: the greatest offset that has
  * passed, which of the `disorder` offsets below it have passed, and how many offsets below it never came.
  *
  * {{{
  *   disorder = 4, marks of one partition
  *   offset   mark  seen below, nearest first   verdict
  *   5        5     0 0 0 0                      new
  *   8        8     0 0 1 0   (7 6 5 4)          new, 6 and 7 are missing
  *   6        8     0 1 1 0                      new: it was missing
  *   6        8     0 1 1 0                      replay
  *   3        8     0 1 1 0                      replay: it is further back than `disorder`
  * }}}
  *
  * Each mark has the time at which its origin was last seen, so that a vanished producer can be
  * removed, and the partition that its records are read from: offsets are ordered within one partition
  * only.
  *
  * A hash table over rows of longs, because there may be millions of marks: about 50 bytes each, and `disorder`
  * bits. A copy shares the rows that aren't changed in it. Several threads may read it while no thread changes it.
  */
final class MarkTable(val disorder: Int) {
  import MarkTable._

  private val words = wordsFor(disorder)

  private var used = 0
  private var slots = emptySlots(16)
  private var ownsSlots = true
  private var rows = new MarkRows(Window + words)
  private var newest = Long.MinValue

  /** The number of entries. They are numbered from 0, in the order in which they were added. */
  def size: Int = used
  def pid(entry: Int): Long = rows(entry, Pid)
  def partition(entry: Int): Int = (rows(entry, Place) >>> 32).toInt

  /** The partitions that the records of this table's origins are read from. */
  private[tailrace] var homes: Homes = new Homes

  /** The number in [[homes]] of the partition that an origin's records are read from, or [[Homes.Unknown]].
    */
  private[tailrace] def home(entry: Int): Int = rows(entry, Place).toInt
  private[tailrace] def setHome(entry: Int, home: Int): Unit = rows(entry, Place) =
    place(partition(entry), home)

  /** The greatest offset that has passed. */
  def mark(entry: Int): Long = rows(entry, Mark)

  /** The number of offsets between the first one and the mark that have not come. */
  def gaps(entry: Int): Long = rows(entry, Gaps)

  /** The time of the origin's last record, which may be a replay: its event time, or the time of its batch.
    */
  def lastSeenMs(entry: Int): Long = rows(entry, Seen)

  /** The latest of these times, also of entries that were left out; `Long.MinValue` if there is none. */
  def newestMs: Long = newest

  /** True if the offset `mark - 1 - i` has passed, in bit `i % 64` of word `i / 64`. */
  def window(entry: Int, word: Int): Long = rows(entry, Window + word)

  /** @return the entry, or -1 */
  def find(pid: Long, partition: Int): Int = slots(slotOf(pid, partition))

  /** The entry of the origin, which is added if there is none. */
  private[replay] def findOrAppend(pid: Long, partition: Int): Int = {
    val slot = slotOf(pid, partition)
    if (slots(slot) >= 0) slots(slot) else append(pid, partition, slot)
  }

  /** Adds an entry for the first record of an origin, which is new, whatever its offset. @return the entry */
  def add(pid: Long, partition: Int, offset: Long): Int = {
    val entry = append(pid, partition)
    rows(entry, Mark) = offset
    rows(entry, Seen) = Long.MinValue
    entry
  }

  /** Notes the time of a record of the origin. */
  def see(entry: Int, timeMs: Long): Unit = if (timeMs > lastSeenMs(entry)) {
    rows(entry, Seen) = timeMs
    if (timeMs > newest) newest = timeMs
  }

  /** True if the table knows of an offset at or below the mark if it has passed, whichever partition it is
    * read from.
    */
  def isCertain(entry: Int, offset: Long): Boolean = mark(entry) - offset <= disorder

  /** Judges the next record of an origin. @return true if it is new, false if it is a replay */
  def admit(entry: Int, offset: Long): Boolean = {
    val mark = this.mark(entry)
    if (offset > mark) {
      if (offset > mark + 1) rows(entry, Gaps) = gaps(entry) + offset - mark - 1
      if (words > 0) shift(entry, offset - mark)
      rows(entry, Mark) = offset
      true
    } else {
      val below = mark - 1 - offset
      below >= 0 && below < disorder && fill(entry, below.toInt)
    }
  }

  private def fill(entry: Int, bit: Int): Boolean = {
    val bits = window(entry, bit / 64)
    val mask = 1L << (bit % 64)
    val isNew = (bits & mask) == 0
    if (isNew) {
      setWindow(entry, bit / 64, bits | mask)
      // The first record of an origin opens no gap below itself, so there may be none to close.
      if (gaps(entry) > 0) rows(entry, Gaps) = gaps(entry) - 1
    }
    isNew
  }

  /** Moves the window up by `by`, and notes the old mark as seen. */
  private def shift(entry: Int, by: Long): Unit =
    if (by > disorder) (0 until words).foreach(setWindow(entry, _, 0L))
    else {
      val whole = (by / 64).toInt
      val bits = (by % 64).toInt
      def before(word: Int): Long = if (word >= 0) window(entry, word) else 0L
      var word = words - 1
      while (word >= 0) {
        val high = before(word - whole) << bits
        val low = if (bits > 0) before(word - whole - 1) >>> (64 - bits) else 0L
        setWindow(entry, word, high | low)
        word -= 1
      }
      val seen = (by - 1).toInt
      setWindow(entry, seen / 64, window(entry, seen / 64) | 1L << (seen % 64))
    }

  /** Copies an entry of a table with the same `disorder`. Its origin must have no entry here.
    *
    * @return the number of the copy
    */
  def append(from: MarkTable, entry: Int): Int = {
    val to = append(from.pid(entry), from.partition(entry))
    rows.set(to, from.rows, entry)
    setHome(to, homeOf(from, from.home(entry)))
    newest = Math.max(newest, lastSeenMs(to))
    to
  }

  // The home of the last entry that was copied: entries one after the other mostly have the same home.
  private var othersHomes: Homes = _
  private var othersHome = Homes.Unknown
  private var ownHome = Homes.Unknown

  /** The number here of another table's home. */
  private def homeOf(from: MarkTable, home: Int): Int = {
    if ((from.homes ne othersHomes) || home != othersHome) {
      ownHome = from.homes.name(home).fold(Homes.Unknown)(homes.of)
      othersHomes = from.homes
      othersHome = home
    }
    ownHome
  }

  private[replay] def set(entry: Int, mark: Long, gaps: Long, lastSeenMs: Long): Unit = {
    rows(entry, Mark) = mark
    rows(entry, Gaps) = gaps
    rows(entry, Seen) = Long.MinValue
    see(entry, lastSeenMs)
  }

  private[replay] def setWindow(entry: Int, word: Int, bits: Long): Unit = rows(entry, Window + word) = bits

  /** Adds an entry for an origin that has none. */
  private[replay] def append(pid: Long, partition: Int): Int = append(pid, partition, slotOf(pid, partition))

  private def append(pid: Long, partition: Int, slot: Int): Int = {
    val entry = used
    val isFull = used * 2 >= slots.length
    if (isFull) grow()
    else if (!ownsSlots) {
      slots = slots.clone()
      ownsSlots = true
    }
    rows(entry, Pid) = pid
    rows(entry, Place) = place(partition, Homes.Unknown)
    slots(if (isFull) slotOf(pid, partition) else slot) = entry
    used += 1
    entry
  }

  /** True if an origin was last seen before a time. False if its time is unknown. */
  def isBefore(entry: Int, timeMs: Long): Boolean =
    lastSeenMs(entry) < timeMs && lastSeenMs(entry) != Long.MinValue

  /** A copy. It is made without the entries of [[isBefore]] only if they are many, because then the table is
    * built again.
    */
  def since(timeMs: Long): MarkTable =
    if (Iterator.range(0, used).count(isBefore(_, timeMs)).toLong * LeastForgotten <= used) copy()
    else {
      val rest = new MarkTable(disorder)
      Iterator.range(0, used).filterNot(isBefore(_, timeMs)).foreach(rest.append(this, _))
      rest.newest = newest
      rest
    }

  def copy(): MarkTable = {
    val same = new MarkTable(disorder)
    same.newest = newest
    same.used = used
    same.slots = slots
    same.ownsSlots = false
    ownsSlots = false
    same.homes = homes.copy()
    same.rows = rows.copy()
    same
  }

  /** The slot of an origin's entry, or the free slot where it would be. */
  private def slotOf(pid: Long, partition: Int): Int = {
    // Producer ids may be any numbers, such as 1, 2, 3: the hash spreads them over all bits.
    val mixed = (pid ^ (partition.toLong * 0x9e3779b97f4a7c15L)) * 0xff51afd7ed558ccdL
    var slot = (mixed >>> 32).toInt & (slots.length - 1)
    while (slots(slot) >= 0 && !isOf(slots(slot), pid, partition)) slot = (slot + 1) & (slots.length - 1)
    slot
  }

  private def isOf(entry: Int, pid: Long, partition: Int): Boolean =
    this.pid(entry) == pid && this.partition(entry) == partition

  private def grow(): Unit = {
    slots = emptySlots(slots.length)
    ownsSlots = true
    var entry = 0
    while (entry < used) {
      slots(slotOf(pid(entry), partition(entry))) = entry
      entry += 1
    }
  }
}

object MarkTable {

  // The numbers of a row. The place is the source's partition and the home: a look-up reads both at once.
  private val Pid = 0
  private val Place = 1
  private val Mark = 2
  private val Gaps = 3
  private val Seen = 4
  private val Window = 5

  /** The table is rebuilt when one entry in this many has been forgotten. */
  private val LeastForgotten = 8

  private def place(partition: Int, home: Int): Long = (partition.toLong << 32) | (home & 0xffffffffL)

  /** The number of longs in the window of one entry. */
  def wordsFor(disorder: Int): Int = (disorder + 63) / 64

  /** Half of the slots stay free, so a search ends soon. */
  private def emptySlots(capacity: Int): Array[Int] = {
    val slots = new Array[Int](capacity * 2)
    Arrays.fill(slots, -1)
    slots
  }
}

/** Rows of longs, all of one width, in chunks that copies share until one of them writes to a chunk. A batch
  * moves a part of the marks, and the table before it stays as it is:
  *
  * {{{
  *   before   chunk 0   chunk 1   chunk 2
  *               │         │
  *   after    chunk 0   chunk 1   chunk 2'  chunk 3      one mark has moved, some have been added
  * }}}
  *
  * A row's numbers are adjacent, so that a look-up touches one line of the processor's cache. Several threads may
  * read while no thread writes.
  */
private[replay] final class MarkRows(width: Int) {
  import MarkRows._

  private var chunks = new Array[Array[Long]](4)
  private var isOwn = new Array[Boolean](4)

  def apply(row: Int, field: Int): Long = chunks(row >>> Bits)((row & Mask) * width + field)

  def update(row: Int, field: Int, value: Long): Unit = own(row)((row & Mask) * width + field) = value

  /** The chunk of a row, to be written to, and made if there is none. */
  private def own(row: Int): Array[Long] = {
    val chunk = row >>> Bits
    if (chunk >= chunks.length) {
      chunks = Arrays.copyOf(chunks, chunks.length * 2)
      isOwn = Arrays.copyOf(isOwn, chunks.length)
    }
    if (!isOwn(chunk)) {
      chunks(chunk) = if (chunks(chunk) == null) new Array[Long](width << Bits) else chunks(chunk).clone()
      isOwn(chunk) = true
    }
    chunks(chunk)
  }

  /** Copies a row of others of the same width. */
  def set(row: Int, from: MarkRows, other: Int): Unit =
    System.arraycopy(
      from.chunks(other >>> Bits),
      (other & Mask) * width,
      own(row),
      (row & Mask) * width,
      width
    )

  /** A copy. Writes to one don't change the other. */
  def copy(): MarkRows = {
    val same = new MarkRows(width)
    same.chunks = chunks.clone()
    same.isOwn = new Array[Boolean](chunks.length)
    isOwn = new Array[Boolean](chunks.length)
    same
  }
}

private object MarkRows {

  /** 256 rows: a batch that moves few marks copies little, and a task of few origins takes little. */
  private val Bits = 8
  private val Mask = (1 << Bits) - 1
}

/** Tables of marks as a file (format 3, `jvm/docs/formats.md`), big-endian; a text is its length in bytes(4)
  * and its UTF-8 bytes:
  *
  * {{{
  *   "TRRM"(4) format(4) place(a text) tables(4), each of them:
  *   disorder(4) homes(4) each home(a text) entries(4)
  *   an entry: producer id(8) partition(4) home(4) mark(8) gaps(8) last seen(8),
  *             then the window, 8 bytes for each 64 of `disorder`
  *   CRC-32C of all before(4)
  * }}}
  *
  * Format 2 has one table, and not how many. Format 1 has neither place nor homes, and no home in an entry. A
  * task sends its marks to the driver as such tables, which are put into the file as they come.
  */
object MarkFile {
  private val Layout =
    new CheckedBytes(0x5452524d, "a table of marks", oldest = 1, newest = 3, placedSince = 2)

  private[replay] def entryLength(disorder: Int): Int = 40 + 8 * MarkTable.wordsFor(disorder)

  private def homes(table: MarkTable): Seq[String] = (0 until table.homes.size).flatMap(table.homes.name(_))

  /** Exact: a table may take most of the memory that there is, and is not copied. */
  private[replay] def tableLength(table: MarkTable, entries: Int, disorder: Int): Int = {
    val texts = homes(table).map(4 + _.getBytes(UTF_8).length).sum
    Math.addExact(12 + texts, Math.multiplyExact(entries, entryLength(disorder)))
  }

  /** Writes a table as a file, without its bytes in memory: there may be millions of marks.
    *
    * @param place of the file: a file of another place is refused
    */
  def write(to: OutputStream, table: MarkTable, place: String): Unit = Layout.write(to, place) { out =>
    out.writeInt(1)
    write(out, table, 0, table.size, table.disorder)
  }

  /** @param tables as [[encodeTable]] gives them
    * @param place  of the file
    */
  def encode(tables: Seq[Array[Byte]], place: String): Array[Byte] =
    Layout.encode(place, tables.foldLeft(4)((sum, table) => Math.addExact(sum, table.length))) { out =>
      out.writeInt(tables.size)
      tables.foreach(out.write)
    }

  /** Some entries of a table as a table of their own.
    *
    * @param disorder of the new table: the table's, or 0 to leave its windows out
    */
  def encodeTable(table: MarkTable, from: Int, until: Int, disorder: Int): Array[Byte] = {
    val bytes = new ExactBytes(tableLength(table, until - from, disorder))
    write(new DataOutputStream(bytes), table, from, until, disorder)
    bytes.content
  }

  private def write(out: DataOutputStream, table: MarkTable, from: Int, until: Int, disorder: Int): Unit = {
    val words = MarkTable.wordsFor(disorder)
    val row = ByteBuffer.allocate(entryLength(disorder))
    out.writeInt(disorder)
    out.writeInt(table.homes.size)
    homes(table).foreach(CheckedBytes.writeText(out, _))
    out.writeInt(until - from)
    var entry = from
    while (entry < until) {
      row.clear()
      row.putLong(table.pid(entry)).putInt(table.partition(entry)).putInt(table.home(entry))
      row.putLong(table.mark(entry)).putLong(table.gaps(entry)).putLong(table.lastSeenMs(entry))
      var word = 0
      while (word < words) {
        row.putLong(table.window(entry, word))
        word += 1
      }
      out.write(row.array)
      entry += 1
    }
  }

  /** Replaces the entries of a table by those of a file.
    *
    * @param name  of the file, for errors
    * @param place that the file must contain
    * @param table with the disorder of the query; a window that was written with another one is widened or
    *              cut
    * @param entry receives the number of each entry in the table, before it is replaced
    */
  def decode(bytes: Array[Byte], name: String, place: String, table: MarkTable)(entry: Int => Unit): Unit =
    Layout.decode(bytes, name, place) { (format, in) =>
      val tables = if (format < 3) 1 else in.getInt()
      (0 until tables).foreach(_ => read(in, format, table)(entry))
    }

  /** The number of entries in the bytes of [[encodeTable]]. */
  def entriesIn(table: Array[Byte]): Int = {
    val in = ByteBuffer.wrap(table).position(4)
    (0 until in.getInt()).foreach(_ => CheckedBytes.readText(in))
    in.getInt()
  }

  /** The same with the bytes of [[encodeTable]], which nothing has damaged. */
  def decodeTable(bytes: Array[Byte], table: MarkTable)(entry: Int => Unit): Unit =
    read(ByteBuffer.wrap(bytes), format = 3, table)(entry)

  private def read(in: ByteBuffer, format: Int, table: MarkTable)(entry: Int => Unit): Unit = {
    val written = in.getInt()
    val homes =
      if (format == 1) Array.emptyIntArray
      else Array.fill(CheckedBytes.readCount(in))(table.homes.of(CheckedBytes.readText(in)))
    val entries = in.getInt()
    if (written < 0 || entries < 0 || in.remaining < entries.toLong * lengthIn(format, written))
      throw new BufferUnderflowException
    (0 until entries).foreach(_ => read(in, format, written, homes, table)(entry))
  }

  private def lengthIn(format: Int, disorder: Int): Int =
    if (format == 1) entryLength(disorder) - 4 else entryLength(disorder)

  private def read(in: ByteBuffer, format: Int, written: Int, homes: Array[Int], table: MarkTable)(
      tell: Int => Unit
  ): Unit = {
    val words = MarkTable.wordsFor(table.disorder)
    val entry = table.findOrAppend(in.getLong(), in.getInt())
    tell(entry)
    val home = if (format == 1) Homes.Unknown else in.getInt()
    table.setHome(entry, if (home >= 0 && home < homes.length) homes(home) else Homes.Unknown)
    table.set(entry, in.getLong(), in.getLong(), in.getLong())
    (0 until Math.max(words, MarkTable.wordsFor(written))).foreach { word =>
      val bits = if (word < MarkTable.wordsFor(written)) in.getLong() else 0L
      if (word < words) table.setWindow(entry, word, bits)
    }
    // An offset further back than the old `disorder` was treated as a replay then, so it counts as passed.
    (written until table.disorder).foreach { bit =>
      table.setWindow(entry, bit / 64, table.window(entry, bit / 64) | (1L << (bit % 64)))
    }
  }
}

/** Small numbers for the partitions of topics that origins are read from. A table of marks has many origins
  * and few such partitions.
  */
private[tailrace] final class Homes {
  private val names = mutable.ArrayBuffer.empty[String]
  private val numbers = mutable.HashMap.empty[String, Int]

  def size: Int = names.size

  /** @param home the number in a table's entry; negative if it is unknown */
  def name(home: Int): Option[String] = Option.when(home >= 0)(names(home))

  /** @return -1 if there is none of this name */
  def find(name: String): Int = numbers.getOrElse(name, Homes.Unknown)

  /** The number of this name. A new name gets a new number. */
  def of(name: String): Int = numbers.getOrElseUpdate(
    name, {
      names += name
      names.size - 1
    }
  )

  def copy(): Homes = {
    val same = new Homes
    names.foreach(same.of)
    same
  }
}

private[replay] object Homes {

  /** The home of a mark that an early version has written. */
  val Unknown: Int = -1
}
