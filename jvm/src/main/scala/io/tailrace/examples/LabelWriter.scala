package io.tailrace.examples

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.{JoinColumns, LeftRowWriter}
import io.tailrace.label.{GroupWriter, JoinSettings, Matches}
import io.tailrace.state.RowMemory

/** Writes a row of examples: behind the left columns, the events of each label, and whether its cap has cut them. Events
  * are copied once, as their bytes in the state; only a shared credit makes another row of them.
  */
private[examples] final class LabelWriter(
    rules: Seq[LabelRule],
    columns: JoinColumns,
    settings: JoinSettings,
    memory: RowMemory
) extends GroupWriter(columns, settings, memory) {
  private val labels = rules.map(new LabelEvents(_, columns)).toArray
  private val isCapped = rules.map(_.maxMatches.nonEmpty).toArray
  private var size = 0
  private var leftOut = 0

  override def lastSize: Int = size
  override def lastLeftOut: Int = leftOut

  override protected def find(left: UnsafeRow, leftTime: Long, matches: Matches): Long = {
    size = 0
    leftOut = 0
    var bytes = 0L
    var i = 0
    while (i < labels.length) {
      val label = labels(i)
      label.find(left, leftTime, matches)
      if (!label.isNull) {
        bytes += LeftRowWriter.arrayBytes(label.size) + label.bytes
        size += label.size
        leftOut += label.leftOut
      }
      i += 1
    }
    bytes
  }

  override protected def writeFound(at: Int): Unit = {
    var column = 0
    var end = at
    var i = 0
    while (i < labels.length) {
      val label = labels(i)
      if (label.isNull) writeNull(column)
      else {
        beginArray(end, label.size)
        var event = 0
        while (event < label.size) {
          addElement(event, label.base(event), label.offset(event), label.length(event))
          event += 1
        }
        end = endArray(column)
      }
      column += 1
      if (isCapped(i)) {
        putFlag(column, !label.isNull && label.leftOut > 0)
        column += 1
      }
      i += 1
    }
  }
}
