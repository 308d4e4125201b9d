package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.{UnsafeArrayData, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.MemoryErrors
import io.tailrace.join.{JoinColumns, LeftRowWriter}
import io.tailrace.state.{RowLayout, RowMemory}

/** Writes a row of a grouped join: the left columns, the group, then `truncated` if there is a cap, then what the row
  * says of its version if there are horizons, then `_mark` if late rows come out. Elements are copied once, as their
  * bytes in the state.
  */
final class GroupWriter(columns: JoinColumns, settings: JoinSettings, memory: RowMemory)
    extends LeftRowWriter(columns, memory) {
  import GroupWriter._

  private val capped = settings.maxMatches.nonEmpty
  private val horizons =
    settings.horizons.fold(Seq.empty[UTF8String])(_.words.map(UTF8String.fromString)).toArray
  // The number of the first of the three columns among those that are added.
  private val versionAt = if (capped) 2 else 1
  private var horizon = 0
  private var isCompared = false
  private var isChanged = false
  private val most = settings.maxMatches.getOrElse(Int.MaxValue)
  private var labels = 0
  private var leftOut = 0

  /** How many elements the last group has. */
  def lastSize: Int = labels

  /** How many matches the cap has left out of the last group. */
  def lastLeftOut: Int = leftOut

  /** What the rows that follow say of their version.
    *
    * @param number     of the horizon; [[GroupWriter.NoHorizon]] for a left row without a time
    * @param hasEarlier whether there is a version before it
    * @param changed    whether its group is another one than before
    */
  def versionIs(number: Int, hasEarlier: Boolean, changed: Boolean): Unit = {
    horizon = number
    isCompared = hasEarlier
    isChanged = changed
  }

  /** @param first   position of the first match; the policy chooses from the `count` candidates from there on
    * @param matched how many matches there are, with those that the policy would never choose
    * @return a row that is valid until the next call
    */
  def write(
      left: UnsafeRow,
      leftTime: Long,
      candidates: Candidates,
      first: Int,
      count: Int,
      matched: Int
  ): UnsafeRow = {
    val chosen =
      if (count == 0) -1 else settings.policy.choose(count, leftTime, i => candidates.time(first + i))
    val start = first + Math.max(chosen, 0)
    val wanted = if (chosen >= 0) 1 else matched
    labels = Math.min(most, wanted)
    leftOut = wanted - labels
    val arrayAt = restAt(left)
    val elements = bytesOf(candidates, start, labels)
    val arrayEnd = arrayAt + 8L + (labels + 63L) / 64 * 8 + 8L * labels + elements
    val needed = arrayEnd + textBytes
    if (needed > LeftRowWriter.MostBytes) throw MemoryErrors.groupTooLarge(labels, needed)
    val arrayHeader = UnsafeArrayData.calculateHeaderPortionInBytes(labels) + 8 * labels
    val length = needed.toInt
    ensure(length)
    writeLeft(left)
    if (settings.marksLate) writeNull(columns.added.size - 1)
    putAdded(0, offsetAndSize(arrayAt, arrayEnd.toInt - arrayAt))
    if (capped) putAdded(1, if (leftOut > 0) True else False)
    writeArray(arrayAt, arrayHeader, candidates, start)
    if (horizons.nonEmpty) writeVersion(arrayEnd.toInt)
    written(length)
  }

  private def bytesOf(candidates: Candidates, start: Int, count: Int): Long = {
    var bytes = 0L
    var i = 0
    while (i < count) {
      bytes += candidates.valueLength(start + i)
      i += 1
    }
    bytes
  }

  private def textBytes: Long =
    if (horizons.isEmpty || horizon < 0) 0L else RowLayout.padded(horizons(horizon).numBytes)

  private def writeVersion(textAt: Int): Unit = {
    if (horizon < 0) writeNull(versionAt)
    else {
      val text = horizons(horizon)
      put(textAt + RowLayout.padded(text.numBytes).toInt - 8, 0L)
      copy(text.getBaseObject, text.getBaseOffset, textAt, text.numBytes)
      putAdded(versionAt, offsetAndSize(textAt, text.numBytes))
    }
    putAdded(versionAt + 1, if (horizon < 0 || horizon == horizons.length - 1) True else False)
    if (isCompared) putAdded(versionAt + 2, if (isChanged) True else False)
    else writeNull(versionAt + 2)
  }

  private def writeArray(at: Int, header: Int, candidates: Candidates, start: Int): Unit = {
    put(at, labels.toLong)
    val words = UnsafeArrayData.calculateHeaderPortionInBytes(labels)
    var word = 8
    while (word < words) {
      put(at + word, 0L)
      word += 8
    }
    var to = header
    var i = 0
    while (i < labels) {
      val position = start + i
      val length = candidates.valueLength(position)
      put(at + word + 8 * i, offsetAndSize(to, length))
      copy(candidates.base(position), candidates.valueOffset(position), at + to, length)
      to += length
      i += 1
    }
  }
}

object GroupWriter {
  private[label] val NoHorizon = -1

  private val False = 0L
  private val True = 1L
}

/** Counts groups in plain fields, row by row, and adds them to the metrics once. */
private[label] final class GroupCounts(metric: String => SQLMetric) {
  private var matched = 0L
  private var unmatched = 0L
  private var labels = 0L
  private var truncated = 0L
  private var leftOut = 0L

  /** Counts the group that was written last.
    *
    * @param matches how many matches the left row has
    */
  def add(matches: Int, writer: GroupWriter): Unit = {
    if (matches > 0) matched += 1 else unmatched += 1
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
