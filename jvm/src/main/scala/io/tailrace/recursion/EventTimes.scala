package io.tailrace.recursion

import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.types.StructType

/** The event times of a row: the columns that a watermark is on, timestamps or windows.
  *
  * @param ordinals of those columns
  */
private[recursion] final class EventTimes(columns: Seq[Attribute], ordinals: Seq[Int]) {
  private val windows: Array[Int] = ordinals.toArray.map(i =>
    columns(i).dataType match {
      case window: StructType => window.length
      case _ => 0
    }
  )
  private val places = ordinals.toArray

  /** In microseconds; of a window the end, which is what makes it late. */
  def oldest(row: UnsafeRow): Option[Long] = {
    var least = Long.MaxValue
    var i = 0
    while (i < places.length) {
      if (!row.isNullAt(places(i))) {
        val time =
          if (windows(i) == 0) row.getLong(places(i)) else row.getStruct(places(i), windows(i)).getLong(1)
        least = Math.min(least, time)
      }
      i += 1
    }
    if (least == Long.MaxValue) None else Some(least)
  }
}
