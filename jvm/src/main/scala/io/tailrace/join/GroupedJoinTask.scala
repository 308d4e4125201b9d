package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner

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
final class GroupedJoinTask(context: JoinTaskContext) extends JoinTask(context) {
  import context._

  override protected val leftKind: StoreKind = StoreKind.LeftTimeSorted

  private val chunk = new RowBuffer(memory)
  private val values = new RowBuffer(memory)
  private val matches = new MatchList(values)
  private val merge = new SortedMerge(-window.before, window.after)
  private val through = Math.max(store.expiredThrough, window.leftExpiry(watermark))
  private var nanos = 0L
  private var expiring: Option[ExpiringRows] = None

  override protected def added(sections: Seq[LiveSection]): Unit = ()

  override protected def joined: Iterator[UnsafeRow] = new Iterator[UnsafeRow] {
    private lazy val source = {
      val rows = new ExpiringRows(store, leftKind, store.expiredThrough, through)
      expiring = Some(rows)
      rows
    }
    private lazy val rightSections = store.sectionsOf(StoreKind.RightKeySorted)
    private lazy val writer = new GroupWriter(settings, columns.payload.size)
    private lazy val joiner = GenerateUnsafeRowJoiner.create(columns.leftSchema, columns.addedSchema)
    private val groupsOut = metric(JoinMetrics.GroupsOut)
    private val groupsMatched = metric(JoinMetrics.GroupsMatched)
    private val groupsUnmatched = metric(JoinMetrics.GroupsUnmatched)
    private val labelsOut = metric(JoinMetrics.LabelsOut)
    private val leftRow = new UnsafeRow(columns.left.size)
    private var order = new Array[Int](0)
    private var position = 0

    override def hasNext: Boolean = position < order.length || nextChunk()

    private def nextChunk(): Boolean = {
      val started = System.nanoTime
      chunk.clear()
      values.clear()
      position = 0
      source.fill(chunk, bufferBytes)
      order = RowSort.byKey(chunk)
      matches.reset(chunk.size)
      merge.run(chunk, order, rightSections)(_.appendValueTo(values))(matches.add)
      nanos += System.nanoTime - started
      order.nonEmpty
    }

    override def next(): UnsafeRow = {
      if (!hasNext) throw new NoSuchElementException("no more groups")
      val row = order(position)
      position += 1
      val count = matches.count(row)
      val group = writer.write(values, matches.ordered(row), count, chunk.time(row))
      groupsOut += 1
      (if (count > 0) groupsMatched else groupsUnmatched) += 1
      labelsOut += writer.lastSize.toLong
      joiner.join(pointTo(leftRow, chunk, row), group)
    }
  }

  override def expiryNanos: Long = nanos

  override def expire(): Long = {
    var removed = 0L
    expiring.foreach { rows =>
      store.markExpired(
        leftKind,
        through,
        live => {
          val n = rows.taken(live)
          removed += n
          n
        }
      )
    }
    store.dropThrough(leftKind, through)
    removed + store.dropThrough(StoreKind.RightKeySorted, window.rightExpiryAtWindowEnd(watermark))
  }

  override def close(): Unit = {
    expiring.foreach(_.close())
    chunk.close()
    values.close()
    super.close()
  }
}
