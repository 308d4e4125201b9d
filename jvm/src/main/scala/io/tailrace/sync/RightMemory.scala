package io.tailrace.sync

import scala.collection.mutable

import io.tailrace.state._

/** The memory that a version of the state has: the index of its right rows, and the numbers of the sections
  * in the index, by run and bucket. All of it can be made again from the state.
  *
  * Where Spark has no memory for the index of all rows, some sections aren't in it: those with the latest rows,
  * which are joined last. Their rows are found in the sections ([[UnindexedRight]]), and those that have left
  * are kept as bitmaps, by the version whose runs they are in.
  */
private[sync] final class RightMemory(kept: KeptMemory) {
  val index = new RightIndex(new KeptMemory.Share(kept))
  val numbers = mutable.HashMap.empty[(String, Long), Int]

  private val unindexed = mutable.HashSet.empty[Int]
  private val goneOf = mutable.HashMap.empty[Long, GoneRows]
  private val goneBytes = new KeptMemory.Share(kept)

  /** Bytes of the heap. */
  def bytes: Long = index.bytes + goneOf.values.map(_.bytes).sum

  /** A section that was added. */
  def section(live: LiveSection): HeldSection = {
    val number = numbers(RightMemory.key(live))
    val gone = Option.when(unindexed(number))(goneIn(live.local.version.get))
    new HeldSection(live, number, gone)
  }

  private def goneIn(version: Long): GoneRows = goneOf.getOrElseUpdate(version, new GoneRows)

  /** Gives a section a number, and says whether its rows may come into the index. */
  def add(live: LiveSection, isIndexed: Boolean): HeldSection = {
    val number = index.newSection()
    numbers(RightMemory.key(live)) = number
    if (!isIndexed) unindexed += number
    section(live)
  }

  /** Takes a section out of the index. @param isLive whether one of its rows counts, by the index */
  def leaveOut(held: HeldSection)(isLive: RunCursor => Boolean): HeldSection = {
    if (held.gone > 0) {
      val gone = goneIn(held.version)
      held.live.foreachRow(row => if (!isLive(row)) gone.add(row.seq))
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

  /** Forgets what has left sections that are gone themselves. @param all that are left */
  def settle(all: Seq[HeldSection]): Unit = {
    val versions = all.filterNot(_.isIndexed).map(_.version).toSet
    goneOf.filterInPlace((version, _) => versions(version))
    // It can't be done without: where Spark has no more for it, it counts less than there is.
    goneBytes.resize(goneOf.values.map(_.bytes).sum): Unit
  }

  /** Makes it from all right rows of a version. The sections that are joined first come into the index first. */
  private def read(store: TailraceStateStore, hash: KeyHash): Unit = {
    val gone = GoneRows.of(store.sectionsOf(StoreKind.JoinedRight), StoreKind.HeldRight)
    store.sectionsOf(StoreKind.HeldRight).sortBy(_.section.minTime).foreach { live =>
      val isRoom = index.makeRoom(live.section.liveRows.toInt)
      val held = add(live, isRoom)
      if (isRoom && !insertAll(held, gone, hash)) leaveOut(held)(row => !gone.contains(row.seq)): Unit
    }
    if (goneOf.nonEmpty)
      store
        .sectionsOf(StoreKind.JoinedRight)
        .foreach(_.foreachRow(row => goneOf.get(row.time).foreach(_.add(row.seq))))
  }

  private def insertAll(held: HeldSection, gone: GoneRows, hash: KeyHash): Boolean = {
    var isRoom = true
    held.live.foreachRow { row =>
      if (isRoom && !gone.contains(row.seq))
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
