package io.tailrace.state

import scala.collection.mutable

/** Rows of key-sorted stores that leave the state one by one in a batch, before their sections do. A mark is a row of
  * its own store, with the time and the sequence number of the row that is gone: so it leaves with that row's time.
  *
  * {{{
  *   left-key-sorted    (A,12:00) 7/1   (B,12:01) 7/2          7/1: version 7, row 1
  *   gone-left          (12:00) 7/1                            the row of A is gone
  *   compaction         (B,12:01) 7/2                          neither of the two is there any more
  * }}}
  *
  * What is gone is kept in memory from one batch to the next, and read from the state where it isn't there.
  *
  * @param kinds       of the marks, in ascending order of their ids
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
    case _ => new Kept(kinds.map(kind => kind.marks.get -> GoneRows.of(sections, kind.marks.get)).toMap)
  }
  private val marks = kinds.map { kind =>
    kind.marks.get -> new FlushingRows(memory, bufferBytes, () => flush(), () => makeRoom())
  }
  private val inBatch = mutable.HashMap.empty[(String, String, Long), Long].withDefaultValue(0L)
  private var count = 0L

  private def sections: Seq[LiveSection] = kinds.flatMap(store.sectionsOf(_))

  /** The rows of a store that are gone, with those of this batch so far. */
  def gone(of: StoreKind): GoneRows = kept.gone(of)

  /** Marks a row that isn't gone yet.
    *
    * @param live that the row is in
    */
  def add(live: LiveSection, time: Long, seq: Long): Unit = {
    val of = live.section.kind
    gone(of).add(seq)
    inBatch(key(live)) += 1
    count += 1
    marks.find(_._1 == of).get._2.append(Nothing, 0, time, seq, Nothing, 0L, 0)
  }

  private def flush(): Unit = {
    store.addSorted(
      kinds.zip(marks).map { case (kind, (_, of)) => SortedRows.all(kind, of.rows, bucketWidth) }
    )
    marks.foreach(_._2.rows.clear())
  }

  private def makeRoom(): Boolean = marks.exists(!_._2.rows.isEmpty) && {
    flush()
    marks.foreach(_._2.rows.release())
    true
  }

  /** Writes the marks, and tells the store which rows count no more. To be called once, at the end of a batch.
    *
    * @return how many rows have gone in it
    */
  def settle(): Long = {
    flush()
    marks.foreach { case (of, _) => store.markExpired(of, store.expiredThrough, live => inBatch(key(live))) }
    kept.settle()
    store.keep(kept)
    count
  }

  override def close(): Unit = marks.foreach(_._2.rows.close())
}

private object GoneMarks {
  private val Nothing = new Array[Byte](0)

  /** Numbers of rows that have left their sections, too, are forgotten when there are more of them. */
  private val Superfluous = 100L * 1000

  private def key(live: LiveSection): (String, String, Long) =
    (live.local.name, live.section.store, live.section.bucket)

  private final class Kept(val gone: Map[StoreKind, GoneRows]) {
    private val share = new KeptMemory.Share(KeptMemory.ofExecutor)

    def isTooLarge(store: TailraceStateStore): Boolean = gone.exists { case (of, rows) =>
      val marked =
        StoreKind.all.filter(_.marks.contains(of)).flatMap(store.sectionsOf(_)).map(_.section.rows).sum
      rows.size > 2 * marked + Superfluous
    }

    /** It can't be done without: where Spark has no more for it, it counts less than there is. */
    def settle(): Unit = share.resize(gone.values.map(_.bytes).sum): Unit
  }
}
