package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.{JoinedRow => BothRows, UnsafeRow}

import io.tailrace.common.Mark
import io.tailrace.join.{Pass, StoredJoinContext}
import io.tailrace.state._

/** The right rows of a stream that no left row has. A right row is decided when all left rows that it may match have
  * been emitted: then it has a note of a match ([[MatchedRights]]), or it is an orphan.
  *
  * {{{
  *   after = 30 min, before = 0          left row (A, 12:00)     right rows (A, 12:10) (A, 12:40) (B, 12:05)
  *
  *   left rows emitted through 12:05     (A, 12:10) is noted. Decided through 12:05: (B, 12:05) is an orphan
  *   left rows emitted through 12:40     decided through 12:40: (A, 12:40) is an orphan
  * }}}
  *
  * Right rows are decided in steps of a 16th of the window: their sections are read once in each. With
  * release_every = "batch", there are no steps. An orphan that was emitted has a note, too, until it is evicted. So notes
  * alone say what has been emitted, after a rescaling and with another window as well.
  */
private[label] final class Orphans(batch: LabelBatch) extends AutoCloseable {
  import batch.context.{columns, metric, store}
  import batch.{settings, window}

  private val through: Long = stepOf(batch.through)
  private val isDue = through > stepOf(store.expiredThrough)
  private var notes: MatchedRights = _

  private def stepOf(released: Long): Long = {
    val decided = window.rightExpiryAtWindowEnd(released)
    val every =
      if (batch.times.release.every == 0) 0L
      else JoinWindow.saturatingAdd(window.before, window.after) / Orphans.StepsInWindow
    if (every == 0 || decided <= Long.MinValue + every) decided else Math.floorDiv(decided, every) * every
  }

  /** The notes of matches, once all rows of the batch have been written. */
  def matched: MatchedRights = {
    if (notes == null) {
      val staying = store.sectionsOf(StoreKind.RightKeySorted).map(_.section).filter { section =>
        !isDue || section.maxTime > through
      }
      // Notes of rows that are evicted in this batch needn't be written.
      notes = new MatchedRights(
        batch.context,
        batch.times.bucketWidth,
        staying.map(_.minTime).minOption.getOrElse(Long.MaxValue)
      )
    }
    notes
  }

  /** Emits the orphans that this batch decides, after its left rows. */
  def pass(): Pass = if (isDue) new OrphanPass() else Pass.none

  private final class OrphanPass extends Pass {
    private val sections =
      store.sectionsOf(StoreKind.RightKeySorted).filter(_.section.minTime <= through)
    LiveSection.prepare(sections)
    private val pending = sections.iterator
    private var cursor: Option[RunCursor] = None
    private val decoder = new KeyDecoder(columns.rightKeys.map(_.dataType).toArray)
    private val value = new UnsafeRow(columns.payload.size)
    private val both = new BothRows
    private lazy val orphan = new LoneRows(columns, settings)
      .right(Mark.UnmatchedRight, columns.rightKeys ++ columns.payload)
    private val isEvent = RightEvents.of(settings.form.isEvent(columns), columns.payload)
    private var count = 0L

    override protected def step(): UnsafeRow = cursor match {
      case Some(rows) if rows.isValid =>
        val row = if (isOrphan(rows)) emit(rows) else null
        rows.next()
        row
      case _ =>
        close()
        if (pending.hasNext) {
          val rows = pending.next().cursor()
          cursor = Some(rows)
          rows.first()
        } else {
          matched.flush()
          metric(LabelMetrics.UnmatchedRightRows) += count
          end()
        }
        null
    }

    private def isOrphan(rows: RunCursor): Boolean =
      rows.time <= through && !matched.has(rows.seq) && {
        value.pointTo(
          rows.base,
          RowLayout.valueAt(rows.base, rows.at),
          RowLayout.valueLength(rows.base, rows.at)
        )
        isEvent(value)
      }

    private def emit(rows: RunCursor): UnsafeRow = {
      matched.leftIs(rows.base, rows.at)
      matched.add(rows.time, rows.seq)
      count += 1
      orphan(both(decoder.decode(rows.keyBytes), value))
    }

    override def close(): Unit = {
      cursor.foreach(_.close())
      cursor = None
    }
  }

  /** Evicts right rows that were decided, with their notes. @return how many */
  def expire(): Long = {
    matched.keep()
    if (!isDue) 0L
    else {
      val evicted = store.dropThrough(StoreKind.RightKeySorted, through)
      // A right row leaves with its section, which may hold later rows. Its note stays until then.
      val staying = store.sectionsOf(StoreKind.RightKeySorted).map(_.section.minTime - 1)
      evicted + store.dropThrough(StoreKind.MatchedRight, (staying :+ through).min)
    }
  }

  override def close(): Unit = if (notes != null) notes.close()
}

private object Orphans {
  private val StepsInWindow = 16
}

/** Notes the right rows that were emitted in a group, or as orphans, until they are evicted. A note has the key, the time
  * and the sequence number of its row. The numbers are kept in memory from one batch to the next, and read from the state
  * where they aren't there.
  *
  * @param from rows before this time are evicted with the batch
  */
private[label] final class MatchedRights(
    context: StoredJoinContext,
    bucketWidth: Long,
    from: Long
) extends MatchSink
    with AutoCloseable {
  import StoreKind.MatchedRight
  import context.{bufferBytes, memory, store}

  private val kept: MatchedRights.Kept = store.takeKept() match {
    case Some(found: MatchedRights.Kept) if !found.isTooLarge(store) => found
    case _ => read()
  }
  private val numbers = kept.rows.of(MatchedRight)
  private val notes = new FlushingRows(memory, bufferBytes, () => flush(), () => makeRoom())
  private var base: AnyRef = _
  private var at = 0L
  private var key: Array[Byte] = _

  private def read(): MatchedRights.Kept = {
    val found = new MatchedRights.Kept
    val rows = found.rows.of(MatchedRight)
    val sections = store.sectionsOf(MatchedRight)
    LiveSection.prepare(sections)
    sections.foreach(_.foreachRow(row => rows.add(row.seq)))
    found
  }

  def has(seq: Long): Boolean = numbers.contains(seq)

  override def leftIs(row: AnyRef, rowAt: Long): Unit = {
    base = row
    at = rowAt
    key = null
  }

  override def add(time: Long, seq: Long): Unit = if (!numbers.contains(seq)) {
    if (time >= from) {
      if (key == null) key = RowLayout.keyBytes(base, at)
      notes.append(key, key.length, time, seq, MatchedRights.NoValue, 0L, 0)
    }
    numbers.add(seq)
  }

  /** Writes the notes in memory into the state. */
  def flush(): Unit = if (!notes.rows.isEmpty) {
    store.addRun(bucketWidth, MatchedRight -> notes.rows): Unit
    notes.rows.clear()
  }

  private def makeRoom(): Boolean = !notes.rows.isEmpty && {
    flush()
    notes.rows.release()
    true
  }

  /** Keeps the numbers for the next batch. */
  def keep(): Unit = {
    flush()
    kept.rows.settle()
    store.keep(kept)
  }

  override def close(): Unit = notes.rows.close()
}

private object MatchedRights {
  private val NoValue = new Array[Byte](0)

  /** Numbers of rows that were evicted are forgotten when there are more of them. */
  private val Superfluous = 100L * 1000

  private final class Kept {
    val rows = new KeptGone[StoreKind](KeptMemory.ofExecutor)

    def isTooLarge(store: TailraceStateStore): Boolean = {
      val noted = store.sectionsOf(StoreKind.MatchedRight).map(_.section.rows).sum
      rows.all.exists(_._2.size > 2 * noted + Superfluous)
    }
  }
}
