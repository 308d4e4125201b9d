package io.tailrace.api

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.util.{DateTimeConstants, IntervalUtils}
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.Errors

/** Durations as Spark reads them: "30 minutes", "1 hour 500 milliseconds", "interval 2 days". */
private[api] object Durations {

  /** @return microseconds, zero or more */
  def parse(argument: String, text: String): Long = {
    val interval =
      try IntervalUtils.stringToInterval(UTF8String.fromString(text))
      catch { case NonFatal(_) => throw Errors.durationInvalid(argument, text) }
    if (interval.months != 0) throw Errors.durationInvalid(argument, text)
    val micros =
      try
        Math.addExact(
          Math.multiplyExact(interval.days.toLong, DateTimeConstants.MICROS_PER_DAY),
          interval.microseconds
        )
      catch { case _: ArithmeticException => throw Errors.durationInvalid(argument, text) }
    if (micros < 0) throw Errors.durationNegative(argument, text)
    micros
  }
}
