package io.tailrace.sync

import scala.collection.mutable

import io.tailrace.state._

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

  /** Forgets what has left sections that are gone themselves. @param all that are left */
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
