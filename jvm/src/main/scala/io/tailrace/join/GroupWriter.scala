package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeArrayWriter, UnsafeRowWriter}

/** Writes the columns that a grouped join adds to a left row: the group, then `truncated` if there is a cap, then `late`
  * if late rows come out. Elements are copied as the bytes that they are in the state, never decoded.
  *
  * @param elementFields columns of one element of the group
  */
final class GroupWriter(settings: JoinSettings, elementFields: Int) {
  private val fields = 1 + settings.maxMatches.size + (if (settings.emitLate) 1 else 0)
  private val row = new UnsafeRowWriter(fields, 1024)
  private val array = new UnsafeArrayWriter(row, 8)
  private val element = new UnsafeRow(elementFields)

  private var labels = 0

  /** Elements in the group last written. */
  def lastSize: Int = labels

  /** @param first position of the first match; the `count` candidates from there on are the matches
    * @return a row that is valid until the next call
    */
  def write(candidates: Candidates, first: Int, count: Int, leftTime: Long): UnsafeRow = {
    val chosen =
      if (count == 0) -1 else settings.policy.choose(count, leftTime, i => candidates.time(first + i))
    val start = first + Math.max(chosen, 0)
    val wanted = if (chosen >= 0) 1 else count
    val size = settings.maxMatches.fold(wanted)(Math.min(_, wanted))
    row.reset()
    row.zeroOutNullBytes()
    val begin = row.cursor()
    array.initialize(size)
    var i = 0
    while (i < size) {
      array.write(i, candidates.pointTo(element, start + i))
      i += 1
    }
    row.setOffsetAndSizeFromPreviousCursor(0, begin)
    if (settings.maxMatches.nonEmpty) row.write(1, size < wanted)
    if (settings.emitLate) row.write(fields - 1, false)
    labels = size
    row.getRow
  }
}
