package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.{JoinColumns, LeftRowWriter}
import io.tailrace.state.RowMemory

/** Writes the group, then whether the cap has cut it if there is one. Elements are copied once, as their bytes in the
  * state.
  */
private[label] final class OneGroupWriter(
    form: OneGroup,
    columns: JoinColumns,
    settings: JoinSettings,
    memory: RowMemory
) extends GroupWriter(columns, settings, memory) {
  private val capped = form.maxMatches.nonEmpty
  private var rows: Candidates = _
  private var start = 0
  private var size = 0
  private var leftOut = 0

  override def lastSize: Int = size
  override def lastLeftOut: Int = leftOut

  override protected def find(left: UnsafeRow, leftTime: Long, matches: Matches): Long = {
    rows = matches.rows
    val chosen = form.chosen(leftTime, matches)
    start = chosen._1
    size = chosen._2
    leftOut = form.leftOut(matches)
    var bytes = 0L
    var i = 0
    while (i < size) {
      bytes += rows.valueLength(start + i)
      i += 1
    }
    LeftRowWriter.arrayBytes(size) + bytes
  }

  override protected def writeFound(at: Int): Unit = {
    beginArray(at, size)
    var i = 0
    while (i < size) {
      val position = start + i
      addElement(i, rows.base(position), rows.valueOffset(position), rows.valueLength(position))
      i += 1
    }
    endArray(0)
    if (capped) putFlag(1, leftOut > 0)
  }
}
