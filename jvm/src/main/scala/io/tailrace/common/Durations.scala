package io.tailrace.common

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.util.{DateTimeConstants, IntervalUtils}
import org.apache.spark.unsafe.types.UTF8String

/** Durations as Spark reads them: "30 minutes", "1 hour 500 milliseconds", "interval 2 days". */
private[tailrace] object Durations {

  /** @return microseconds; none if it isn't a duration of a fixed length */
  def read(text: String): Option[Long] =
    try {
      val interval = IntervalUtils.stringToInterval(UTF8String.fromString(text))
      val days = Math.multiplyExact(interval.days.toLong, DateTimeConstants.MICROS_PER_DAY)
      if (interval.months != 0) None else Some(Math.addExact(days, interval.microseconds))
    } catch { case NonFatal(_) => None }

  private val Units = Seq(
    "d" -> 86400L * 1000 * 1000,
    "h" -> 3600L * 1000 * 1000,
    "min" -> 60L * 1000 * 1000,
    "s" -> 1000L * 1000,
    "ms" -> 1000L,
    "us" -> 1L
  )

  /** Microseconds as people write them: 1 h 30 min. */
  def text(micros: Long): String = {
    val (_, parts) = Units.foldLeft((micros, Vector.empty[String])) { case ((rest, parts), (unit, length)) =>
      (rest % length, if (rest < length) parts else parts :+ s"${rest / length} $unit")
    }
    if (parts.isEmpty) "0 s" else parts.mkString(" ")
  }
}
