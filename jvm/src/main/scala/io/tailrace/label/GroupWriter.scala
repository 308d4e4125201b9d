package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.{UnsafeArrayData, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods
import org.apache.spark.unsafe.bitset.BitSetMethods

import io.tailrace.common.MemoryErrors
import io.tailrace.join.JoinColumns
import io.tailrace.state.RowMemory

/** Writes a row of a grouped join: the left columns, the group, then `truncated` if there is a cap, then
  * `_mark` if late rows come out. Left columns and elements are copied once, as their bytes in the state.
  * They are never decoded.
  *
  * {{{
  *   null bits | a word a left column | group: offset, size | flags || bytes of left columns | the array
  *               └ offsets of those longer than a word: moved by what stands between
  * }}}
  */
final class GroupWriter(columns: JoinColumns, settings: JoinSettings, memory: RowMemory)
    extends AutoCloseable {
  import GroupWriter._

  private val leftFields = columns.left.size
  private val leftBits = UnsafeRow.calculateBitSetWidthInBytes(leftFields)
  private val leftFixed = leftBits + 8 * leftFields
  // The places of the offsets of columns that are longer than a word.
  private val moving: Array[Int] = columns.left.indices
    .filterNot(i => UnsafeRow.isFixedLength(columns.left(i).dataType))
    .map(8 * _)
    .toArray

  private val fields = leftFields + columns.added.size
  private val bits = UnsafeRow.calculateBitSetWidthInBytes(fields)
  private val fixed = bits + 8 * fields
  private val capped = settings.maxMatches.nonEmpty
  private val most = settings.maxMatches.getOrElse(Int.MaxValue)

  private val row = new UnsafeRow(fields)
  private var buffer = new Array[Byte](1024)
  private var reserved = 0L
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
    val arrayAt = fixed + left.getSizeInBytes - leftFixed
    val elements = bytesOf(candidates, start, labels)
    val needed = arrayAt + 8L + (labels + 63L) / 64 * 8 + 8L * labels + elements
    if (needed > MostBytes) throw MemoryErrors.groupTooLarge(labels, needed)
    val arrayHeader = UnsafeArrayData.calculateHeaderPortionInBytes(labels) + 8 * labels
    val length = needed.toInt
    ensure(length)
    writeLeft(left)
    if (settings.marksLate) writeNull(fields - 1)
    put(bits + 8 * leftFields, offsetAndSize(arrayAt, length - arrayAt))
    if (capped) put(bits + 8 * (leftFields + 1), if (leftOut > 0) True else False)
    writeArray(arrayAt, arrayHeader, candidates, start)
    row.pointTo(buffer, length)
    row
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

  private def ensure(length: Int): Unit = if (buffer.length < length) {
    if (length <= Small) buffer = new Array[Byte](2 * length)
    else {
      // Gives the memory of the old buffer back first: nothing of it is needed.
      close()
      val room = Math.max(length.toLong, Math.min(length + length / 8L, MostBytes)).toInt
      memory.reserve(room.toLong)
      reserved = room.toLong
      buffer = new Array[Byte](room)
    }
  }

  override def close(): Unit = {
    buffer = Array.emptyByteArray
    memory.giveBack(reserved)
    reserved = 0
  }

  private def put(at: Int, word: Long): Unit = Platform.putLong(buffer, Start + at, word)

  private def writeLeft(left: UnsafeRow): Unit = {
    val base = left.getBaseObject
    val from = left.getBaseOffset
    put(bits - 8, 0L) // the result may have one word of null bits more than the left row
    Platform.copyMemory(base, from, buffer, Start, leftBits.toLong)
    Platform.copyMemory(base, from + leftBits, buffer, Start + bits, 8L * leftFields)
    val rest = (left.getSizeInBytes - leftFixed).toLong
    Platform.copyMemory(base, from + leftFixed, buffer, Start + fixed, rest)
    val by = (fixed - leftFixed).toLong << 32
    var i = 0
    while (i < moving.length) {
      val at = Start + bits + moving(i)
      val where = Platform.getLong(buffer, at)
      // 0 is a null without a value. A null decimal has an offset, which moves too.
      if (where != 0) Platform.putLong(buffer, at, where + by)
      i += 1
    }
  }

  private def writeNull(field: Int): Unit = {
    BitSetMethods.set(buffer, Start, field)
    put(bits + 8 * field, 0L)
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
      val from = candidates.base(position)
      Platform.copyMemory(from, candidates.valueOffset(position), buffer, Start + at + to, length.toLong)
      to += length
      i += 1
    }
  }
}

object GroupWriter {
  private val Start = Platform.BYTE_ARRAY_OFFSET.toLong
  private val MostBytes = ByteArrayMethods.MAX_ROUNDED_ARRAY_LENGTH.toLong

  // A row of up to so many bytes isn't counted with Spark's memory manager.
  private val Small = 1 << 20
  private val False = 0L
  private val True = 1L

  private def offsetAndSize(offset: Int, size: Int): Long = (offset.toLong << 32) | size.toLong
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
