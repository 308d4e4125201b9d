package io.tailrace.sync

import scala.collection.mutable

import io.tailrace.state._

/** The memory that a version of the state has: where its right rows are, and what is known of its left rows. All of it
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

  /** Forgets sections that are gone. @param left those that aren't */
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

  /** To be read, and added to. */
  def of(version: Long): GoneRows = byVersion.of(version)

  /** To be read. */
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

  /** Forgets what has left sections that are gone themselves. @param versions that have some that aren't */
  def settle(versions: Set[Long]): Unit = {
    byVersion.retain(versions)
    byVersion.settle()
  }
}
