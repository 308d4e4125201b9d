package io.tailrace.sync

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.common.{Policy, StepwiseRows}
import io.tailrace.join.JoinColumns
import io.tailrace.state.RowLayout

/** The left rows that are released, each with its right row or with nulls. Where duplicates come out marked, the further right
  * rows of a left row follow it.
  */
private[sync] final class DecidedRows(
    columns: JoinColumns,
    settings: SyncSettings,
    released: ReleasedRows,
    right: RightRows,
    newWriter: => SyncWriter,
    metric: String => SQLMetric
) extends StepwiseRows[UnsafeRow] {
  // Made with the first row: most tasks of a small batch have none.
  private lazy val writer = newWriter
  private val marks = settings.marksDuplicates
  private val leftRow = new UnsafeRow(columns.left.size)
  private val found = right.found
  private var isMarking = false
  private var matched = 0L
  private var unmatched = 0L
  private var duplicateLeft = 0L
  private var duplicateRight = 0L
  private var tooFar = 0L

  override protected def step(): UnsafeRow =
    if (isMarking) markOther()
    else if (released.next()) decide()
    else {
      right.endTaking()
      count()
      end()
      null
    }

  private def decide(): UnsafeRow = {
    val (base, at) = (released.base, released.at)
    leftRow.pointTo(base, RowLayout.valueAt(base, at), RowLayout.valueLength(base, at))
    right.take(released)
    isMarking = marks && found.count > 1
    if (found.count > 0) {
      matched += 1
      duplicateRight += found.count - 1
      writer.joined(leftRow, found.joinedBase, found.joinedAt)
    } else if (released.isFirst) {
      unmatched += 1
      if (right.hasTooFar) tooFar += 1
      writer.leftAlone(leftRow, duplicate = false)
    } else {
      duplicateLeft += 1
      if (settings.onDuplicate == Policy.Drop) null else writer.leftAlone(leftRow, duplicate = marks)
    }
  }

  private def markOther(): UnsafeRow = {
    isMarking = found.nextOther()
    if (isMarking) writer.rightAlone(found.otherBase, found.otherAt, duplicate = true) else null
  }

  private def count(): Unit = {
    metric(SyncMetrics.Matched) += matched
    metric(SyncMetrics.UnmatchedLeft) += unmatched
    metric(SyncMetrics.DuplicateLeft) += duplicateLeft
    metric(SyncMetrics.DuplicateRight) += duplicateRight
    metric(SyncMetrics.TooFar) += tooFar
  }
}

/** The right rows that a left row can join: those in memory and those of the state. Left rows come by key, and of a key by
  * time.
  */
private[sync] final class RightRows(
    settings: SyncSettings,
    newRight: NewRight,
    heldRight: HeldRight,
    val found: FoundRows,
    spare: SpareRight
) extends AutoCloseable {
  private val range = new JoinRange(settings)

  /** Takes the right rows that the left row joins, into [[found]]. The rows of its key are read once, for the first left row
    * of the key.
    */
  def take(left: ReleasedRows): Unit = {
    val (base, at) = (left.base, left.at)
    range.around(RowLayout.time(base, at))
    found.clear()
    if (left.isFirst) {
      spare.clear()
      newRight.take(left.keyPrefix, base, at, range, found, spare)
      heldRight.take(base, at, range, found, spare)
    } else if (spare.isOverflown) {
      newRight.takeAgain(range, found)
      heldRight.takeAgain(base, at, range, found)
    } else if (!spare.isEmpty) spare.take(range, found, newRight, heldRight)
  }

  /** Whether the key has had right rows that are out of reach. */
  def hasTooFar: Boolean = spare.hasSeen

  /** No more left rows come. */
  def endTaking(): Unit = heldRight.endTaking()

  override def close(): Unit = {
    heldRight.close()
    found.close()
    spare.close()
  }
}
