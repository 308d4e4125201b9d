package io.tailrace.label

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.{MemoryErrors, RowMemoryExhausted}
import io.tailrace.join.{JoinMetrics, StoredJoinContext}
import io.tailrace.state.{LiveSection, MemoryShare, RowBuffer, RowSort, StoreKind}

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
final class LazyJoinTask(context: StoredJoinContext, settings: JoinSettings, times: LabelJoinTimes)
    extends JoinTask(context, settings, times) {
  import context._
  import times._

  private val leftKind = StoreKind.LeftTimeSorted

  private val chunk = new RowBuffer(memory)
  private val share = new MemoryShare(memory, bufferBytes)
  private val parked = new ParkedRows
  private val merge =
    new SortedMerge(-window.before, window.after, memory, bufferBytes, settings.bound)
  private lazy val writer = new GroupWriter(columns, settings, memory)
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
    private val leftRow = new UnsafeRow(columns.left.size)
    private var hasProbe = false
    private val counts = new GroupCounts(metric)
    private var found = 0L

    override def hasNext: Boolean = hasProbe || {
      hasProbe = nextProbe() || nextChunk()
      hasProbe
    }

    private def nextProbe(): Boolean =
      try merge.next()
      catch {
        case e: RowMemoryExhausted =>
          again(e)
          true
      }

    /** Left rows that were parked, or those that expire. */
    private def nextChunk(): Boolean = {
      val started = System.nanoTime
      chunk.clear()
      if (parked.fill(chunk)) merge.start(chunk, Array.range(0, chunk.size), rightSections)
      else {
        share.reset()
        source.fill(chunk, share)
        merge.start(chunk, RowSort.byKey(chunk), rightSections)
      }
      nanos += System.nanoTime - started
      val more = nextProbe()
      if (!more) report()
      more
    }

    override def next(): UnsafeRow = {
      if (!hasNext) throw new NoSuchElementException("no more groups")
      hasProbe = false
      val row = write()
      counts.add(merge.matched, writer.lastSize)
      found += merge.matched
      row
    }

    @tailrec private def write(): UnsafeRow = {
      val row =
        try {
          val (probe, matches) = (merge.probe, merge.candidates)
          val left = pointTo(leftRow, chunk, probe)
          writer.write(left, chunk.time(probe), matches, matches.first, matches.count, merge.matched)
        } catch {
          case e: RowMemoryExhausted =>
            again(e)
            null
        }
      if (row == null) write() else row
    }

    /** Comes to the same left row once more, with more memory: those behind it go to disk, until it is the only one. */
    private def again(first: RowMemoryExhausted): Unit = {
      var failure = first
      while (failure != null) {
        val rest = merge.rest
        if (rest.length <= 1) {
          throw MemoryErrors.groupTooLarge(merge.candidates.size, merge.candidates.bytes, failure)
        }
        merge.release()
        writer.close()
        parked.park(store, chunk, rest)
        parked.fill(chunk)
        merge.start(chunk, Array.range(0, chunk.size), rightSections)
        failure =
          try {
            merge.next()
            null
          } catch { case e: RowMemoryExhausted => e }
      }
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
    parked.close()
    writer.close()
    chunk.close()
    super.close()
  }
}
