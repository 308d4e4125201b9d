package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.{UnsafeArrayData, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.common.MemoryErrors
import io.tailrace.join.{JoinColumns, LeftRowWriter}
import io.tailrace.state.RowMemory

/** Writes a row of a grouped join: the left columns, the group, then `truncated` if there is a cap, then
  * `_mark` if late rows come out. Elements are copied once, as their bytes in the state.
  */
final class GroupWriter(columns: JoinColumns, settings: JoinSettings, memory: RowMemory)
    extends LeftRowWriter(columns, memory) {
  import GroupWriter._

  private val capped = settings.maxMatches.nonEmpty
  private val most = settings.maxMatches.getOrElse(Int.MaxValue)
  private var labels = 0
  private var leftOut = 0

  /** How many elements the last group has. */
  def lastSize: Int = labels

  /** How many matches the cap has left out of the last group. */
  def lastLeftOut: Int = leftOut

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
    val needed = arrayAt + 8L + (labels + 63L) / 64 * 8 + 8L * labels + elements
    if (needed > LeftRowWriter.MostBytes) throw MemoryErrors.groupTooLarge(labels, needed)
    val arrayHeader = UnsafeArrayData.calculateHeaderPortionInBytes(labels) + 8 * labels
    val length = needed.toInt
    ensure(length)
    writeLeft(left)
    if (settings.marksLate) writeNull(columns.added.size - 1)
    putAdded(0, offsetAndSize(arrayAt, length - arrayAt))
    if (capped) putAdded(1, if (leftOut > 0) True else False)
    writeArray(arrayAt, arrayHeader, candidates, start)
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
