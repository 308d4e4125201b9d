package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.MemoryErrors
import io.tailrace.join.{JoinColumns, LeftRowWriter}
import io.tailrace.state.{RowLayout, RowMemory}

/** Writes a row of a grouped join: the left columns, those of its [[GroupForm]], then what the row says of its version
  * if there are horizons, then `_mark` if rows are emitted that have one.
  */
private[tailrace] abstract class GroupWriter(
    columns: JoinColumns,
    settings: JoinSettings,
    memory: RowMemory
) extends LeftRowWriter(columns, memory) {
  private val horizons =
    settings.horizons.fold(Seq.empty[UTF8String])(_.words.map(UTF8String.fromString)).toArray
  // The number of the first of the three columns among those that are added.
  private val versionAt = settings.form.size
  private var horizon = 0
  private var isCompared = false
  private var isChanged = false
  private var mark: UTF8String = _

  /** The mark of the rows that follow; null: they are ordinary ones. */
  final def markIs(text: UTF8String): Unit = mark = text

  /** The number of right rows the last row has. */
  def lastSize: Int

  /** The number of matches that caps have left out of the last row. */
  def lastLeftOut: Int

  /** Finds what comes out of a left row's matches.
    *
    * @return how many bytes it takes behind the left columns
    */
  protected def find(left: UnsafeRow, leftTime: Long, matches: Matches): Long

  /** Writes what was found into the added columns.
    *
    * @param at where its bytes begin
    */
  protected def writeFound(at: Int): Unit

  /** What the rows that follow say of their version.
    *
    * @param number     of the horizon; [[GroupWriter.NoHorizon]] for a left row without a time
    * @param hasEarlier whether there is a version before it
    * @param changed    whether it is another one than before
    */
  final def versionIs(number: Int, hasEarlier: Boolean, changed: Boolean): Unit = {
    horizon = number
    isCompared = hasEarlier
    isChanged = changed
  }

  /** @return a row that is valid until the next call */
  final def write(left: UnsafeRow, leftTime: Long, matches: Matches): UnsafeRow = {
    val at = restAt(left)
    val end = at + find(left, leftTime, matches)
    val needed = end + textBytes
    if (needed > LeftRowWriter.MostBytes) throw MemoryErrors.groupTooLarge(lastSize, needed)
    val length = needed.toInt
    ensure(length)
    writeLeft(left)
    writeFound(at)
    if (horizons.nonEmpty) writeVersion(end.toInt)
    if (settings.hasMarks) writeMark(length)
    written(length)
  }

  private def textBytes: Long = {
    val version = if (horizons.isEmpty || horizon < 0) 0L else RowLayout.padded(horizons(horizon).numBytes)
    version + markBytes
  }

  private def markBytes: Long = if (mark == null) 0L else RowLayout.padded(mark.numBytes)

  /** It is the last one of the row. */
  private def writeMark(end: Int): Unit = {
    val column = columns.added.size - 1
    if (mark == null) writeNull(column) else putText(column, mark, end - markBytes.toInt)
  }

  private def putText(column: Int, text: UTF8String, at: Int): Unit = {
    put(at + RowLayout.padded(text.numBytes).toInt - 8, 0L)
    copy(text.getBaseObject, text.getBaseOffset, at, text.numBytes)
    putAdded(column, offsetAndSize(at, text.numBytes))
  }

  private def writeVersion(textAt: Int): Unit = {
    if (horizon < 0) writeNull(versionAt) else putText(versionAt, horizons(horizon), textAt)
    putFlag(versionAt + 1, horizon < 0 || horizon == horizons.length - 1)
    if (isCompared) putFlag(versionAt + 2, isChanged) else writeNull(versionAt + 2)
  }

  protected final def putFlag(column: Int, value: Boolean): Unit = putAdded(column, if (value) 1L else 0L)
}

object GroupWriter {
  private[label] val NoHorizon = -1
}

/** Counts groups in plain fields, row by row, and adds them to the metrics once. */
private[label] final class GroupCounts(metric: String => SQLMetric) {
  private var matched = 0L
  private var unmatched = 0L
  private var labels = 0L
  private var truncated = 0L
  private var leftOut = 0L

  /** Counts the row that was written last. */
  def add(writer: GroupWriter): Unit = {
    if (writer.lastSize > 0) matched += 1 else unmatched += 1
    labels += writer.lastSize
    if (writer.lastLeftOut > 0) truncated += 1
    leftOut += writer.lastLeftOut
  }

  def report(): Unit = {
    metric(LabelMetrics.GroupsOut) += matched + unmatched
    metric(LabelMetrics.GroupsMatched) += matched
    metric(LabelMetrics.GroupsUnmatched) += unmatched
    metric(LabelMetrics.LabelsOut) += labels
    metric(LabelMetrics.GroupsTruncated) += truncated
    metric(LabelMetrics.LabelsLeftOut) += leftOut
  }
}
