package io.tailrace.replay

import java.util.Arrays

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
  * Each mark has the time at which its origin was last seen, so that a producer that is gone can be
  * forgotten, and the partition that its records are read from: offsets are ordered within one partition
  * only.
  *
  * A hash table over plain arrays, because there may be a million marks: 40 bytes each, and `disorder` bits.
  * Several threads may read it while no thread changes it.
  */
final class MarkTable(val disorder: Int) {
  import MarkTable._

  private val words = wordsFor(disorder)

  private var capacity = 16
  private var used = 0
  private var slots = emptySlots(capacity)
  private var pids = new Array[Long](capacity)
  // The source's partition and the home: a look-up reads both at once.
  private var places = new Array[Long](capacity)
  private var marks = new Array[Long](capacity)
  private var gapCounts = new Array[Long](capacity)
  private var seenMs = new Array[Long](capacity)
  private var windows = new Array[Long](capacity * words)
  private var newest = Long.MinValue

  /** The number of entries. They are numbered from 0, in the order in which they were added. */
  def size: Int = used
  def pid(entry: Int): Long = pids(entry)
  def partition(entry: Int): Int = (places(entry) >>> 32).toInt

  /** The partitions that the records of this table's origins are read from. */
  private[tailrace] var homes: Homes = new Homes

  /** The number in [[homes]] of the partition that an origin's records are read from, or [[Homes.Unknown]].
    */
  private[tailrace] def home(entry: Int): Int = places(entry).toInt
  private[tailrace] def setHome(entry: Int, home: Int): Unit = places(entry) = place(partition(entry), home)

  /** The greatest offset that has passed. */
  def mark(entry: Int): Long = marks(entry)

  /** The number of offsets between the first one and the mark that have not come. */
  def gaps(entry: Int): Long = gapCounts(entry)

  /** The time of the origin's last record, which may be a replay: its event time, or the time of its batch.
    */
  def lastSeenMs(entry: Int): Long = seenMs(entry)

  /** The latest of these times, also of entries that were left out; `Long.MinValue` if there is none. */
  def newestMs: Long = newest

  /** Whether the offset `mark - 1 - i` has passed, in bit `i % 64` of word `i / 64`. */
  def window(entry: Int, word: Int): Long = windows(entry * words + word)

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
    marks(entry) = offset
    seenMs(entry) = Long.MinValue
    entry
  }

  /** Notes the time of a record of the origin. */
  def see(entry: Int, timeMs: Long): Unit = if (timeMs > seenMs(entry)) {
    seenMs(entry) = timeMs
    if (timeMs > newest) newest = timeMs
  }

  /** Whether the table knows of an offset at or below the mark if it has passed, whichever partition it is
    * read from.
    */
  def isCertain(entry: Int, offset: Long): Boolean = marks(entry) - offset <= disorder

  /** Judges the next record of an origin. @return true if it is new, false if it is a replay */
  def admit(entry: Int, offset: Long): Boolean = {
    val mark = marks(entry)
    if (offset > mark) {
      gapCounts(entry) += offset - mark - 1
      if (words > 0) shift(entry, offset - mark)
      marks(entry) = offset
      true
    } else {
      val below = mark - 1 - offset
      below >= 0 && below < disorder && fill(entry, below.toInt)
    }
  }

  private def fill(entry: Int, bit: Int): Boolean = {
    val at = entry * words + bit / 64
    val mask = 1L << (bit % 64)
    val isNew = (windows(at) & mask) == 0
    if (isNew) {
      windows(at) |= mask
      // The first record of an origin opens no gap below itself, so there may be none to close.
      if (gapCounts(entry) > 0) gapCounts(entry) -= 1
    }
    isNew
  }

  /** Moves the window up by `by`, and notes the old mark as seen. */
  private def shift(entry: Int, by: Long): Unit = {
    val from = entry * words
    if (by > disorder) Arrays.fill(windows, from, from + words, 0L)
    else {
      val whole = (by / 64).toInt
      val bits = (by % 64).toInt
      var word = words - 1
      while (word >= 0) {
        val high = if (word - whole >= 0) windows(from + word - whole) << bits else 0L
        val low =
          if (bits > 0 && word - whole - 1 >= 0) windows(from + word - whole - 1) >>> (64 - bits) else 0L
        windows(from + word) = high | low
        word -= 1
      }
      val seen = (by - 1).toInt
      windows(from + seen / 64) |= 1L << (seen % 64)
    }
  }

  /** Copies an entry of a table with the same `disorder`. Its origin must have no entry here.
    *
    * @return the number of the copy
    */
  def append(from: MarkTable, entry: Int): Int = {
    val to = append(from.pid(entry), from.partition(entry))
    set(to, from.mark(entry), from.gaps(entry), from.lastSeenMs(entry))
    setHome(to, homeOf(from, from.home(entry)))
    System.arraycopy(from.windows, entry * words, windows, to * words, words)
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
    marks(entry) = mark
    gapCounts(entry) = gaps
    seenMs(entry) = Long.MinValue
    see(entry, lastSeenMs)
  }

  private[replay] def setWindow(entry: Int, word: Int, bits: Long): Unit = windows(entry * words + word) =
    bits

  /** Adds an entry for an origin that has none. */
  private[replay] def append(pid: Long, partition: Int): Int = append(pid, partition, slotOf(pid, partition))

  private def append(pid: Long, partition: Int, slot: Int): Int = {
    val entry = used
    val free =
      if (entry < capacity) slot
      else {
        grow()
        slotOf(pid, partition)
      }
    pids(entry) = pid
    places(entry) = place(partition, Homes.Unknown)
    slots(free) = entry
    used += 1
    entry
  }

  /** Whether an origin was last seen before a time. False if its time is unknown. */
  def isBefore(entry: Int, timeMs: Long): Boolean = seenMs(entry) < timeMs && seenMs(entry) != Long.MinValue

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
    same.capacity = capacity
    same.used = used
    same.slots = slots.clone()
    same.pids = pids.clone()
    same.places = places.clone()
    same.homes = homes.copy()
    same.marks = marks.clone()
    same.gapCounts = gapCounts.clone()
    same.seenMs = seenMs.clone()
    same.windows = windows.clone()
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
    pids(entry) == pid && this.partition(entry) == partition

  private def grow(): Unit = {
    capacity *= 2
    pids = Arrays.copyOf(pids, capacity)
    places = Arrays.copyOf(places, capacity)
    marks = Arrays.copyOf(marks, capacity)
    gapCounts = Arrays.copyOf(gapCounts, capacity)
    seenMs = Arrays.copyOf(seenMs, capacity)
    windows = Arrays.copyOf(windows, capacity * words)
    slots = emptySlots(capacity)
    var entry = 0
    while (entry < used) {
      slots(slotOf(pids(entry), partition(entry))) = entry
      entry += 1
    }
  }
}

object MarkTable {

  /** The table is built again when one entry of so many is forgotten. */
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
