package io.tailrace.state

import scala.collection.mutable

/** Rows of key-sorted stores that leave the state one by one in a batch, before their sections do. Each gets a tombstone
  * with its time and sequence number: so the tombstone leaves with the row's time.
  *
  * {{{
  *   left-key-sorted    (A,12:00) 7/1   (B,12:01) 7/2          7/1: version 7, row 1
  *   gone-left          (12:00) 7/1                            the row of A has left
  *   compaction         (B,12:01) 7/2                          neither of the two is there any longer
  * }}}
  *
  * The numbers of rows with tombstones are kept in memory from one batch to the next. They are read from the state where
  * they aren't there.
  *
  * @param kinds       of the tombstones, in ascending order of their ids
  * @param bucketWidth of their sections, in microseconds
  */
final class GoneMarks(
    store: TailraceStateStore,
    kinds: Seq[StoreKind],
    memory: RowMemory,
    bufferBytes: Long,
    bucketWidth: Long
) extends AutoCloseable {
  import GoneMarks._

  private val kept: Kept = store.takeKept() match {
    case Some(found: Kept) if !found.isTooLarge(store) => found
    case _ => read()
  }
  private val tombstones = new TombstoneBuffer(store, kinds, memory, bufferBytes, bucketWidth)
  private val inBatch = mutable.HashMap.empty[(String, String, Long), Long].withDefaultValue(0L)
  private var count = 0L

  private def read(): Kept = {
    val found = new Kept(KeptMemory.ofExecutor)
    val sections = kinds.flatMap(store.sectionsOf(_))
    kinds.flatMap(_.marks).foreach(of => found.gone.put(of, GoneRows.of(sections, of)))
    found
  }

  /** The rows of a store that have left, with those of this batch so far. */
  def gone(of: StoreKind): GoneRows = kept.gone.of(of)

  /** Marks a row that has no tombstone yet.
    *
    * @param live that the row is in
    */
  def add(live: LiveSection, time: Long, seq: Long): Unit = {
    val of = live.section.kind
    gone(of).add(seq)
    inBatch(key(live)) += 1
    count += 1
    tombstones.add(of, time, seq)
  }

  /** Writes the tombstones, and tells the store which rows no longer count. To be called once, at the end of a batch.
    *
    * @return how many rows have left in it
    */
  def settle(): Long = {
    tombstones.write()
    kinds.flatMap(_.marks).foreach { of =>
      store.markExpired(of, store.expiredThrough, live => inBatch(key(live)))
    }
    kept.gone.settle()
    store.keep(kept)
    count
  }

  override def close(): Unit = tombstones.close()
}

private object GoneMarks {

  /** Numbers of rows that have left their sections, too, are forgotten when there are more of them. */
  private val Superfluous = 100L * 1000

  private def key(live: LiveSection): (String, String, Long) =
    (live.local.name, live.section.store, live.section.bucket)

  private final class Kept(memory: KeptMemory) {
    val gone = new KeptGone[StoreKind](memory)

    def isTooLarge(store: TailraceStateStore): Boolean = gone.all.exists { case (of, rows) =>
      val marked =
        StoreKind.all.filter(_.marks.contains(of)).flatMap(store.sectionsOf(_)).map(_.section.rows).sum
      rows.size > 2 * marked + Superfluous
    }
  }
}

/** The tombstones of a batch, gathered in memory. They are written when they are many. A tombstone has the sequence
  * number of its row, and neither key nor value; its time is up to the operator.
  *
  * @param kinds       of the tombstones, in ascending order of their ids
  * @param bucketWidth of their sections, in the unit of their times
  */
private[tailrace] final class TombstoneBuffer(
    store: TailraceStateStore,
    kinds: Seq[StoreKind],
    memory: RowMemory,
    bufferBytes: Long,
    bucketWidth: Long
) extends AutoCloseable {
  import TombstoneBuffer.Nothing

  private val stores = kinds.map(_.marks.get).toArray
  private val gathered: Array[FlushingRows] = stores.map { of =>
    new FlushingRows(memory, bufferBytes, () => write(), () => makeRoom(of))
  }

  private def of(marked: StoreKind): FlushingRows = {
    var i = 0
    while (stores(i) != marked) i += 1
    gathered(i)
  }

  /** Takes the memory for the first ones now. */
  def prepare(): this.type = {
    gathered.foreach(_.rows.prepare())
    this
  }

  /** @param marked the store that the row is in */
  def add(marked: StoreKind, time: Long, seq: Long): Unit =
    of(marked).append(Nothing, 0, time, seq, Nothing, 0L, 0)

  /** Writes all of them into the state, as one run. */
  def write(): Unit = {
    store.addSorted(kinds.zip(gathered).map { case (kind, some) =>
      SortedRows.all(kind, some.rows, bucketWidth)
    })
    gathered.foreach(_.rows.clear())
  }

  /** Those of a store that are in memory and whose times are chosen, sorted. */
  def chosen(marked: StoreKind)(time: Long => Boolean): SortedRows = {
    val rows = of(marked).rows
    SortedRows.some(kinds(stores.indexOf(marked)), rows, bucketWidth, row => time(rows.time(row)))
  }

  /** Those of the store that needs it keep their memory, the others give it back. */
  private def makeRoom(marked: StoreKind): Boolean = gathered.exists(!_.rows.isEmpty) && {
    write()
    gathered.filter(_ ne of(marked)).foreach(_.rows.release())
    true
  }

  override def close(): Unit = gathered.foreach(_.rows.close())
}

private object TombstoneBuffer {
  private val Nothing = new Array[Byte](0)
}

/** The rows with tombstones that an operator keeps in memory from one batch to the next, in sets of their own: by the
  * store, or by the version whose run they are in.
  */
private[tailrace] final class KeptGone[K](memory: KeptMemory) {
  private val sets = mutable.HashMap.empty[K, GoneRows]
  private val share = new KeptMemory.Share(memory)
  private val none = new GoneRows

  /** The set of a key, which is made if there is none: to be read and added to. */
  def of(key: K): GoneRows = sets.getOrElseUpdate(key, new GoneRows)

  /** The set of a key, to be read. */
  def in(key: K): GoneRows = sets.getOrElse(key, none)

  def get(key: K): Option[GoneRows] = sets.get(key)

  def put(key: K, rows: GoneRows): Unit = sets(key) = rows

  def all: Iterator[(K, GoneRows)] = sets.iterator

  def isEmpty: Boolean = sets.isEmpty

  /** Bytes of the heap. */
  def bytes: Long = sets.valuesIterator.map(_.bytes).sum

  /** Forgets the sets of other keys. */
  def retain(keys: K => Boolean): Unit = sets.filterInPlace((key, _) => keys(key))

  /** Accounts for their memory. Operators can't do without them: where Spark has no memory left, less is accounted for
    * than is used.
    */
  def settle(): Unit = share.resize(bytes): Unit
}
