package io.tailrace.sync

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
