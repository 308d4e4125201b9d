package io.tailrace.label

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.common.{MemoryErrors, OrderedBytes, RowMemoryExhausted, Side}
import io.tailrace.join.{ExpiringRows, Pass}
import io.tailrace.state._

/** Eager matching of a grouped join: a match is found when the later of its two rows arrives. It is kept
  * under its left row until that expires.
  *
  * {{{
  *   batch ──> left-time-sorted    left rows, to be emitted in the order of time
  *         ──> left-key-sorted     their keys alone, for right rows to find
  *         ──> right-key-sorted    right rows, for left rows that are still to come
  *
  *   new left  x right rows of earlier batches     ┐
  *   new right x left rows of earlier batches      ├──> joined-indicator (left time, left seq, right row)
  *               and of this one                   ┘
  *
  *   watermark reaches left_time + after:
  *     left-time-sorted ──┐ both by (left time, left seq)
  *     joined-indicator ──┴─ merge ──> (left row, [right rows])
  * }}}
  *
  * With before = 0, after = 30 minutes and the watermark at 12:35: right rows up to 12:35 are removed,
  * matched or not. Lazy matching keeps them until 13:05. Left rows up to 12:05 are emitted with the matches
  * that were found.
  */
private[label] final class EagerMatching(batch: LabelBatch) extends LabelMatching {
  import StoreKind._
  import batch.context._
  import batch.times.{bucketWidth, earlier, watermark}
  import batch.{closedThrough, closing, context, settings, through, window}

  private val earlierKeys = store.sectionsOf(LeftKeySorted)
  private val earlierRight = store.sectionsOf(RightKeySorted)
  private val newKeys = new ArrayBuffer[LiveSection]
  private val newRight = new ArrayBuffer[LiveSection]
  private val findings = new FlushingRows(memory, bufferBytes, () => flushFound(), () => makeRoom())
  private val found = findings.rows
  private val joinedRow = new JoinedRow
  private val current = new RowBuffer(memory)
  private val group = new Candidates(memory)
  private lazy val groupWriter = settings.groupWriter(columns, memory)
  private var expiring: Option[ExpiringRows] = None
  private var matches: Option[ExpiringRows] = None
  private var nanos = 0L

  override def write(left: RowBuffer, right: RowBuffer): Unit = {
    val added = store.addSorted(
      Seq(
        SortedRows.all(LeftTimeSorted, left, bucketWidth),
        SortedRows.keys(LeftKeySorted, left, bucketWidth),
        SortedRows.all(RightKeySorted, right, bucketWidth)
      )
    )
    newKeys ++= added.filter(_.section.kind == LeftKeySorted)
    newRight ++= added.filter(_.section.kind == RightKeySorted)
  }

  override def passes: Seq[() => Pass] = Seq(() => Pass.withoutRows(prepare()), () => groups())

  private def prepare(): Unit = {
    val started = System.nanoTime
    findMatches()
    found.release()
    nanos = System.nanoTime - started
  }

  private def groups(): Pass = {
    val started = System.nanoTime
    val expired = new ExpiringRows(store, LeftTimeSorted, store.expiredThrough, through)
    expiring = Some(expired)
    val matched = new ExpiringRows(store, JoinedIndicator, store.expiredThrough, through)
    matches = Some(matched)
    nanos += System.nanoTime - started
    new Groups(expired, matched)
  }

  /** Writes the matches of this batch's rows, with earlier rows and with each other, into the state. */
  private def findMatches(): Unit = {
    import window.{after, before}
    keepAll(new ArrivalMatches(newKeys.toSeq, earlierRight, -before, after, context), probes = Side.Left)
    val lefts = earlierKeys ++ newKeys
    keepAll(new ArrivalMatches(newRight.toSeq, lefts, -after, before, context), probes = Side.Right)
    earlier.foreach { was =>
      val more = new ArrivalMatches(earlierKeys, earlierRight, was.after + 1, after, context)
      keepAll(more, probes = Side.Left)
    }
    flushFound()
  }

  private def keepAll(source: ArrivalMatches, probes: Side): Unit = {
    val probesAreLeft = probes == Side.Left
    var count = 0L
    try
      while (source.next()) {
        val probe = source.chunk.base(source.probe)
        val probeAt = source.chunk.at(source.probe)
        val candidate = source.candidates.base(source.candidate)
        val candidateAt = source.candidates.at(source.candidate)
        val isKept =
          if (probesAreLeft) keep(probe, probeAt, candidate, candidateAt)
          else keep(candidate, candidateAt, probe, probeAt)
        if (isKept) count += 1
      }
    finally source.close()
    metric(LabelMetrics.MatchedOnArrival) += count
  }

  private def keep(left: AnyRef, leftAt: Long, right: AnyRef, rightAt: Long): Boolean = {
    val isOpen = RowLayout.time(left, leftAt) > closedThrough
    if (isOpen) joinedRow.append(findings, left, leftAt, right, rightAt)
    isOpen
  }

  private def flushFound(): Unit = {
    store.addRun(bucketWidth, JoinedIndicator -> found)
    found.clear()
  }

  private def makeRoom(): Boolean = !found.isEmpty && {
    flushFound()
    found.release()
    true
  }

  /** The left rows that expire, one a step, each with its group. Both inputs come by left time and seq. */
  private final class Groups(lefts: ExpiringRows, joins: ExpiringRows) extends Pass {
    private val leftRow = new UnsafeRow(columns.left.size)
    private val counts = new GroupCounts(metric)
    private val selection = new MatchSelection(settings.bound, group)
    private val matches = new FoundMatches(joins)
    private val twins = columns.identityOrdinal.map(at => (new Twins, at))

    override protected def step(): UnsafeRow =
      if (lefts.isEmpty) {
        counts.report()
        closing.report()
        end()
        null
      } else {
        current.clear()
        current.appendRow(lefts.base, lefts.at)
        lefts.drop()
        val time = current.time(0)
        group.clear()
        matches.of(time, current.seq(0))
        try write(time)
        catch { case e: RowMemoryExhausted => throw MemoryErrors.groupTooLarge(group.size, group.bytes, e) }
      }

    private def write(time: Long): UnsafeRow = {
      val matched = selection.take(matches, time, ofOneTime = false)
      leftRow.pointTo(current.base(0), current.valueOffset(0), current.valueLength(0))
      val twin = twins.fold(0) { case (of, at) =>
        of.number(time, Twins.key(current.base(0), current.at(0)), leftRow, at)
      }
      val row = groupWriter.write(leftRow, time, Matches(group, 0, group.size, matched, twin))
      counts.add(groupWriter)
      closing.add(time)
      row
    }
  }

  /** The matches of one left row. */
  private final class FoundMatches(joins: ExpiringRows) extends KeyedRows {
    private var leftTime = 0L
    private var leftSeq = 0L

    def of(time: Long, seq: Long): Unit = {
      leftTime = time
      leftSeq = seq
    }

    override def isEmpty: Boolean = joins.isEmpty || {
      val order = joins.compareHead(leftTime, leftSeq)
      // A match without a left row would never be emitted: its label would be lost silently.
      require(order >= 0, "a match without its left row")
      order > 0
    }

    override def time: Long = MatchKey.rightTime(joins.base, joins.at)

    override def addTo(candidates: Candidates): Unit = {
      val base = joins.base
      val at = joins.at
      candidates.add(time, base, RowLayout.valueAt(base, at), RowLayout.valueLength(base, at))
    }

    override def advance(): Unit = joins.drop()
  }

  override def expiryNanos: Long = nanos

  override def expire(): Long = {
    val removed = Seq(LeftTimeSorted -> expiring, JoinedIndicator -> matches).map { case (kind, rows) =>
      val taken = rows.fold(Map.empty[LiveSection, Long])(_.taken)
      store.markExpired(kind, through, taken.getOrElse(_, 0L))
      taken.values.sum + store.dropThrough(kind, through)
    }
    batch.keepWatermark()
    removed.sum + store.dropThrough(LeftKeySorted, through) +
      store.dropThrough(RightKeySorted, window.rightExpiryOnMatch(watermark))
  }

  override def close(): Unit = {
    expiring.foreach(_.close())
    matches.foreach(_.close())
    Seq(found, current, group, groupWriter).foreach(_.close())
  }
}

/** A row of the joined-indicator store (`jvm/docs/formats.md`): a match, under the time and the sequence
  * number of its left row. Its key is the right row's time and sequence number, which tells the matches of a
  * left row apart. Its value is the right row's.
  */
private[label] final class JoinedRow {
  private val key = new OrderedBytes(MatchKey.Length)

  def append(to: FlushingRows, left: AnyRef, leftAt: Long, right: AnyRef, rightAt: Long): Unit = {
    key.reset()
    MatchKey.put(key, RowLayout.time(right, rightAt), RowLayout.seq(right, rightAt))
    to.append(
      key.bytes,
      key.length,
      RowLayout.time(left, leftAt),
      RowLayout.seq(left, leftAt),
      right,
      RowLayout.valueAt(right, rightAt),
      RowLayout.valueLength(right, rightAt)
    )
  }
}
