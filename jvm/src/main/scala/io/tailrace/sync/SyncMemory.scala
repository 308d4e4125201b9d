package io.tailrace.sync

import java.util.Arrays

import scala.collection.mutable

import io.tailrace.state._

/** The memory that a version of the state has: the places of its right rows, and facts about its left rows. All of it
  * can be made again from the state.
  */
private[sync] final class SyncMemory(val right: RightMemory, val left: LeftMemory) {

  /** Bytes of the heap. */
  def bytes: Long = right.bytes + left.bytes
}

private[sync] object SyncMemory {

  /** Makes it from a version. */
  def read(store: TailraceStateStore, hash: KeyHash, kept: KeptMemory): SyncMemory = {
    val left = new LeftMemory(kept)
    left.gone.read(store, StoreKind.HeldLeft, StoreKind.JoinedLeft)
    new SyncMemory(RightMemory.read(store, hash, kept), left)
  }
}

/** The index of a version's right rows, and the numbers of the sections in the index, by run and bucket.
  *
  * Where Spark has no memory for the index of all rows, some sections aren't in it: those with the latest rows,
  * which are joined last. Their rows are found in the sections ([[UnindexedRight]]), and those that have left
  * are kept as bitmaps, by the version whose runs they are in.
  */
private[sync] final class RightMemory(kept: KeptMemory) {
  val index = new RightIndex(new KeptMemory.Share(kept))
  val numbers = mutable.HashMap.empty[(String, Long), Int]

  private val unindexed = mutable.HashSet.empty[Int]
  private val gone = new GoneOfRuns(kept)

  /** Bytes of the heap. */
  def bytes: Long = index.bytes + gone.bytes

  /** A section that was added. */
  def section(live: LiveSection): HeldSection = {
    val number = numbers(RightMemory.key(live))
    new HeldSection(live, number, Option.when(unindexed(number))(gone.of(live.local.version.get)))
  }

  /** Gives a section a number, and decides whether its rows may be added to the index. */
  def add(live: LiveSection, isIndexed: Boolean): HeldSection = {
    val number = index.newSection()
    numbers(RightMemory.key(live)) = number
    if (!isIndexed) unindexed += number
    section(live)
  }

  /** Takes a section out of the index. @param isLive whether one of its rows counts, by the index */
  def leaveOut(held: HeldSection)(isLive: RunCursor => Boolean): HeldSection = {
    if (held.gone > 0) {
      val left = gone.of(held.version)
      held.live.foreachRow(row => if (!isLive(row)) left.add(row.seq))
    }
    index.dropSection(held.number)
    val out = add(held.live, isIndexed = false)
    out.gone = held.gone
    out
  }

  def drop(held: HeldSection): Unit = {
    index.dropSection(held.number)
    unindexed -= held.number
    numbers -= RightMemory.key(held.live)
  }

  /** Removes the tombstones of dropped sections. @param all the remaining ones */
  def settle(all: Seq[HeldSection]): Unit = gone.settle(all.filterNot(_.isIndexed).map(_.version).toSet)

  /** Makes it from all right rows of a version. The sections that are joined first come into the index first. */
  private def read(store: TailraceStateStore, hash: KeyHash): Unit = {
    val marks = store.sectionsOf(StoreKind.JoinedRight)
    val left = GoneRows.of(marks, StoreKind.HeldRight)
    store.sectionsOf(StoreKind.HeldRight).sortBy(_.section.minTime).foreach { live =>
      val isRoom = index.makeRoom(live.section.liveRows.toInt)
      val held = add(live, isRoom)
      if (isRoom && !insertAll(held, left, hash)) leaveOut(held)(row => !left.contains(row.seq)): Unit
    }
    gone.readKnown(marks)
  }

  private def insertAll(held: HeldSection, left: GoneRows, hash: KeyHash): Boolean = {
    var isRoom = true
    held.live.foreachRow { row =>
      if (isRoom && !left.contains(row.seq))
        isRoom = index.insert(hash.of(row.base, row.at), held.number, row.seq)
    }
    isRoom
  }
}

private[sync] object RightMemory {

  /** The key of a section in `numbers`. */
  def key(live: LiveSection): (String, Long) = (live.local.name, live.section.bucket)

  /** Makes it from all right rows of a version. */
  def read(store: TailraceStateStore, hash: KeyHash, kept: KeptMemory): RightMemory = {
    val memory = new RightMemory(kept)
    memory.read(store, hash)
    memory
  }
}

/** Which left rows have left before their time, and which keys are in a section: 4 bytes a row, of sections that have been
  * looked through for right rows, as far as there is memory for them. The others are looked through again.
  */
private[sync] final class LeftMemory(kept: KeptMemory) {
  val gone = new GoneOfRuns(kept)

  private val codes = mutable.HashMap.empty[(String, Long), Array[Int]]
  private var count = 0L
  private val share = new KeptMemory.Share(kept)

  /** Bytes of the heap. */
  def bytes: Long = gone.bytes + count * 4

  /** The keys of a section's rows that counted when it was looked through: see [[NewKeys]]. */
  def codesIn(live: LiveSection): Option[Array[Int]] = codes.get(RightMemory.key(live))

  def learn(live: LiveSection, found: Array[Int]): Unit = if (share.resize((count + found.length) * 4)) {
    codes(RightMemory.key(live)) = found
    count += found.length
  }

  /** Removes dropped sections. @param left the remaining ones */
  def settle(left: Seq[LiveSection]): Unit = {
    gone.settle(left.map(_.local.version.get).toSet)
    val keys = left.map(RightMemory.key).toSet
    codes.filterInPlace((key, _) => keys(key))
    count = codes.valuesIterator.map(_.length.toLong).sum
    share.resize(count * 4): Unit
  }
}

/** Rows that have left their sections, which still have them: by the version whose runs these are in. */
private[sync] final class GoneOfRuns(kept: KeptMemory) {
  private val byVersion = new KeptGone[Long](kept)

  /** For look-ups and additions. */
  def of(version: Long): GoneRows = byVersion.of(version)

  /** For look-ups. */
  def in(version: Long): GoneRows = byVersion.in(version)

  /** Bytes of the heap. */
  def bytes: Long = byVersion.bytes

  /** Reads the marks of all rows of a store. */
  def read(store: TailraceStateStore, rows: StoreKind, marks: StoreKind): Unit = {
    val all = store.sectionsOf(marks)
    if (all.nonEmpty) {
      store.sectionsOf(rows).foreach(live => of(live.local.version.get))
      readKnown(all)
    }
  }

  /** Reads the marks of versions that have been asked for. */
  def readKnown(marks: Seq[LiveSection]): Unit = if (!byVersion.isEmpty)
    marks.foreach(_.foreachRow(row => byVersion.get(row.time).foreach(_.add(row.seq))))

  /** Removes the tombstones of dropped sections. @param versions with remaining sections */
  def settle(versions: Set[Long]): Unit = {
    byVersion.retain(versions)
    byVersion.settle()
  }
}

/** The tombstones of a side's rows that leave in one batch: one in joined-left or joined-right has the row's sequence
  * number, and as its time the version whose run the row is in.
  *
  * @param kind of the tombstones
  */
private[sync] final class SyncMarks(
    kind: StoreKind,
    store: TailraceStateStore,
    memory: RowMemory,
    bufferBytes: Long
) extends AutoCloseable {
  private val rows = kind.marks.get
  private val tombstones = new TombstoneBuffer(store, Seq(kind), memory, bufferBytes, bucketWidth = 1)

  /** Takes the memory for the first ones now. */
  def prepare(): SyncMarks = {
    tombstones.prepare(): Unit
    this
  }

  def add(version: Long, seq: Long): Unit = tombstones.add(rows, version, seq)

  /** Keeps the tombstones that are in a run, which the caller drops: they may be of other runs' rows. */
  def carry(run: LocalRun): Unit =
    store.sectionsOf(kind).filter(_.local eq run).foreach(_.foreachRow(row => add(row.time, row.seq)))

  /** Those of some versions, sorted, to be written with the batch's run. */
  def of(versions: Set[Long]): SortedRows = tombstones.chosen(rows)(versions)

  /** Drops sections of tombstones. @param versions with rows that still count */
  def settle(versions: Set[Long]): Unit = store.settle(
    kind,
    live =>
      if (versions.exists(v => v >= live.section.minTime && v <= live.section.maxTime)) 0L
      else live.section.rows
  )

  override def close(): Unit = tombstones.close()
}

/** An index in memory of the sections of held-right that have rows of a key: a release that finds nothing
  * reads nothing. It is a table with open addressing, two longs an entry:
  *
  * {{{
  *   hash of the key (48 bits) | section (16 bits)    sequence number of the row; below zero: a set of rows
  * }}}
  *
  * A key has an entry for each section that holds rows of it. Keys of one hash share entries, which is
  * harmless: the reader of a section compares key and sequence number. When a section is dropped, its entries
  * become garbage at once, which the next insertion or rehash clears away.
  *
  * Positions are valid until the next insertion.
  *
  * @param memory that it may take; a section that doesn't fit is left out ([[UnindexedRight]])
  */
final class RightIndex(memory: KeptMemory.Share = new KeptMemory.Share(KeptMemory.ofExecutor)) {
  import RightIndex._

  private var words = new Array[Long](2 * LeastCapacity)
  private var mask = LeastCapacity - 1
  private var used = 0
  private var entries = 0

  // By section: how many entries it has; Free, or Gone while garbage of it may be left.
  private var entriesOf = new Array[Int](16)
  private var nextSection = 1
  private val free = mutable.ArrayDeque.empty[Int]
  private val gone = mutable.ArrayBuffer.empty[Int]
  Arrays.fill(entriesOf, Free)

  // Rows of one hash in one section, where there are several: duplicates mostly.
  private val several = mutable.LongMap.empty[mutable.LongMap[Unit]]
  private var lastSet = 0L
  private var inSets = 0L
  private var isCounted = false

  /** Entries that count. */
  def size: Int = entries

  /** Bytes of the table, and of sets. */
  def bytes: Long = bytesOf(mask + 1L)

  private def bytesOf(capacity: Long): Long = capacity * 16L + inSets * BytesInSet

  /** A number for a new section. */
  def newSection(): Int = {
    if (free.isEmpty && nextSection == MostSections) rehash(capacityFor(entries))
    val section =
      if (free.nonEmpty) free.removeHead()
      else {
        require(nextSection < MostSections, s"more than $MostSections sections")
        nextSection += 1
        nextSection - 1
      }
    if (section >= entriesOf.length) {
      val size = entriesOf.length
      entriesOf = Arrays.copyOf(entriesOf, size * 2)
      Arrays.fill(entriesOf, size, size * 2, Free)
    }
    entriesOf(section) = 0
    section
  }

  /** Drops a section with its rows. */
  def dropSection(section: Int): Unit = {
    entries -= entriesOf(section)
    entriesOf(section) = Gone
    gone += section
  }

  /** Makes room for a number of new entries. @return false: there is no memory for them */
  def makeRoom(more: Int): Boolean = isRoom(used.toLong + more) || grow(entries.toLong + more)

  private def isRoom(entriesThen: Long): Boolean = isCounted && fits(entriesThen, mask + 1L)

  private def grow(entriesThen: Long): Boolean =
    if (isCounted) rehashFor(entriesThen)
    else {
      isCounted = memory.resize(bytes)
      isCounted && (fits(entriesThen, mask + 1L) || rehashFor(entriesThen))
    }

  private def rehashFor(entriesThen: Long): Boolean = {
    // Garbage is cleared away before the table grows, unless it is little.
    val capacity = if (fits(entriesThen * 5 / 4, mask + 1L)) mask + 1L else capacityFor(entriesThen)
    capacity <= MostCapacity && memory.resize(bytes + bytesOf(capacity)) && {
      rehash(capacity)
      memory.resize(bytes)
    }
  }

  /** @return false: there is no memory for it */
  def insert(hash: Long, section: Int, seq: Long): Boolean = (isRoom(used + 1L) || grow(entries + 1L)) && {
    val word = wordOf(hash, section)
    var at = home(hash)
    var room = -1
    while (words(2 * at) != Empty && words(2 * at) != word) {
      if (room < 0 && isGarbage(words(2 * at))) room = at
      at = (at + 1) & mask
    }
    if (words(2 * at) == word) addTo(at, seq)
    else {
      if (room < 0) {
        used += 1
        room = at
      } else forgetSet(words(2 * room + 1))
      words(2 * room) = word
      words(2 * room + 1) = seq
      entriesOf(section) += 1
      entries += 1
      true
    }
  }

  private def addTo(at: Int, seq: Long): Boolean = {
    val value = words(2 * at + 1)
    value == seq || memory.resize(bytes + 2 * BytesInSet) && {
      if (value < 0) several(~value)(seq) = ()
      else {
        lastSet += 1
        inSets += 1
        several(lastSet) = mutable.LongMap(value -> (()), seq -> (()))
        words(2 * at + 1) = ~lastSet
      }
      inSets += 1
      true
    }
  }

  /** The first entry with this hash. @return its position, or -1 */
  def first(hash: Long): Int = from(home(hash), hash)

  /** The next entry with this hash. */
  def next(hash: Long, at: Int): Int = from((at + 1) & mask, hash)

  private def from(start: Int, hash: Long): Int = {
    var at = start
    while (words(2 * at) != Empty) {
      val word = words(2 * at)
      if (((word ^ hash) & HashBits) == 0 && !isGarbage(word)) return at
      at = (at + 1) & mask
    }
    -1
  }

  /** The entry of a hash in one section. @return its position, or -1 */
  private def find(hash: Long, section: Int): Int = {
    val word = wordOf(hash, section)
    var at = home(hash)
    while (words(2 * at) != Empty) {
      if (words(2 * at) == word) return at
      at = (at + 1) & mask
    }
    -1
  }

  def section(at: Int): Int = (words(2 * at) & SectionBits).toInt

  /** True if the row is one of the entry's. */
  def has(at: Int, seq: Long): Boolean = {
    val value = words(2 * at + 1)
    if (value < 0) several(~value).contains(seq) else value == seq
  }

  /** True if a row of a section is there. */
  def contains(hash: Long, section: Int, seq: Long): Boolean = {
    val at = find(hash, section)
    at >= 0 && has(at, seq)
  }

  /** Removes a row from its entry, and with the last row the entry. */
  def remove(at: Int, seq: Long): Unit = {
    val value = words(2 * at + 1)
    val last = value >= 0 || {
      val rows = several(~value)
      if (rows.remove(seq).isDefined) inSets -= 1
      rows.isEmpty
    }
    if (last) {
      forgetSet(value)
      entriesOf(section(at)) -= 1
      entries -= 1
      words(2 * at) |= SectionBits
      words(2 * at + 1) = 0L
    }
  }

  /** The same for a row that is there. */
  def remove(hash: Long, section: Int, seq: Long): Unit = remove(find(hash, section), seq)

  private def forgetSet(value: Long): Unit = if (value < 0) {
    inSets -= several.remove(~value).fold(0)(_.size)
  }

  private def isGarbage(word: Long): Boolean = {
    val section = (word & SectionBits).toInt
    section == Removed || entriesOf(section) == Gone
  }

  private def home(hash: Long): Int = (hash >>> 16).toInt & mask

  private def fits(entries: Long, capacity: Long): Boolean = entries * 5 < capacity * 3

  private def capacityFor(entries: Long): Long =
    Math.max(LeastCapacity.toLong, java.lang.Long.highestOneBit(entries * 3L) * 2)

  /** Removes the garbage, and makes the table as large as its entries need. */
  private def rehash(capacity: Long): Unit = {
    val old = words
    words = new Array[Long](2 * capacity.toInt)
    mask = capacity.toInt - 1
    used = entries
    var i = 0
    while (i < old.length) {
      val word = old(i)
      if (word != Empty) {
        if (isGarbage(word)) forgetSet(old(i + 1))
        else {
          var at = home(word)
          while (words(2 * at) != Empty) at = (at + 1) & mask
          words(2 * at) = word
          words(2 * at + 1) = old(i + 1)
        }
      }
      i += 2
    }
    gone.foreach(entriesOf(_) = Free)
    free ++= gone
    gone.clear()
  }
}

object RightIndex {
  private val LeastCapacity = 1024

  /** The maximum length of a table, with two longs per entry. */
  private val MostCapacity = 1L << 29

  /** A row of a set, in a map of Scala's. */
  private val BytesInSet = 48L
  private val Empty = 0L
  private val SectionBits = 0xffffL
  private val HashBits = ~SectionBits
  private val Removed = 0xffff
  private val MostSections = 0xffff
  private val Free = -1
  private val Gone = -2

  // Sections are counted from 1: no word is empty.
  private def wordOf(hash: Long, section: Int): Long = (hash & HashBits) | section.toLong
}
