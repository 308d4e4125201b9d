package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.state._

/** Lazy matching: nothing is looked up when a row arrives. When left rows expire, they are read in time order, sorted by
  * key, a chunk at a time, and merged once with the right rows of their windows.
  *
  * {{{
  *   batch ──sort──> one run: left rows by time, right rows by key, in time buckets
  *
  *   watermark passes left_time + after:
  *     left-time-sorted ──scan (expired, now]──> chunk ──sort by key──┐
  *     right-key-sorted ── sections that the chunk's windows reach ───┴─ merge ──> (left row, [right rows])
  *   then left sections up to there and right sections that nobody can match any more are dropped whole
  * }}}
  *
  * With after = 30 minutes and a watermark that goes from 12:20 to 12:35, left rows after 11:50 and up to 12:05 come
  * out; right rows of 12:05 are still needed, for a left row of 12:06.
  */
final class LazyJoinTask(context: JoinTaskContext) extends JoinTask(context) {
  import context._

  private val leftKind = StoreKind.LeftTimeSorted

  private val chunk = new RowBuffer(memory)
  private val merge = new SortedMerge(-window.before, window.after, memory)
  private val through = Math.max(store.expiredThrough, window.leftExpiry(watermark))
  private var nanos = 0L
  private var expiring: Option[ExpiringRows] = None

  override protected def write(left: RowBuffer, right: RowBuffer): Unit =
    store.addRun(bucketWidth, leftKind -> left, StoreKind.RightKeySorted -> right)

  override protected def joined: Iterator[UnsafeRow] = new Iterator[UnsafeRow] {
    private lazy val source = {
      val rows = new ExpiringRows(store, leftKind, store.expiredThrough, through)
      expiring = Some(rows)
      rows
    }
    private lazy val rightSections = store.sectionsOf(StoreKind.RightKeySorted)
    private lazy val writer = new GroupWriter(columns, settings)
    private val leftRow = new UnsafeRow(columns.left.size)
    private var hasProbe = false
    private val counts = new GroupCounts(metric)
    private var found = 0L

    override def hasNext: Boolean = hasProbe || {
      hasProbe = merge.next() || nextChunk()
      hasProbe
    }

    private def nextChunk(): Boolean = {
      val started = System.nanoTime
      chunk.clear()
      source.fill(chunk, bufferBytes)
      merge.start(chunk, RowSort.byKey(chunk), rightSections)
      nanos += System.nanoTime - started
      val more = merge.next()
      if (!more) report()
      more
    }

    override def next(): UnsafeRow = {
      if (!hasNext) throw new NoSuchElementException("no more groups")
      hasProbe = false
      val probe = merge.probe
      val matches = merge.candidates
      val left = pointTo(leftRow, chunk, probe)
      val row = writer.write(left, chunk.time(probe), matches, matches.first, matches.count)
      counts.add(matches.count, writer.lastSize)
      found += matches.count
      row
    }

    private def report(): Unit = {
      counts.report()
      metric(JoinMetrics.MatchedAtExpiry) += found
      found = 0
    }
  }

  override def expiryNanos: Long = nanos

  override def expire(): Long = {
    val taken = expiring.fold(Map.empty[LiveSection, Long])(_.taken)
    store.markExpired(leftKind, through, taken.getOrElse(_, 0L))
    store.dropThrough(leftKind, through)
    taken.values.sum + store.dropThrough(StoreKind.RightKeySorted, window.rightExpiryAtWindowEnd(watermark))
  }

  override def close(): Unit = {
    expiring.foreach(_.close())
    merge.close()
    chunk.close()
    super.close()
  }
}
