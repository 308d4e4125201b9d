package io.tailrace.watermark

import io.tailrace.plan.SqlFunction

/** The function of `io.tailrace.watermark` under its name in SQL. */
object WatermarkFunctions {
  val parseStamp: SqlFunction.Description = SqlFunction(
    classOf[ParseWatermarkStamp],
    "parse_watermark_stamp(stamp)",
    "A struct of low_watermark and completeness; null if the bytes aren't a stamp."
  ) { case Seq(stamp) => ParseWatermarkStamp(stamp) }
}
