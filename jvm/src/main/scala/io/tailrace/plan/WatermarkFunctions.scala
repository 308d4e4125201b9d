package io.tailrace.plan

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}

import io.tailrace.common.Errors
import io.tailrace.progress.ParseWatermarkStamp

/** The function of `io.tailrace.progress` under its name in SQL. */
object WatermarkFunctions {
  private val Call = "parse_watermark_stamp(stamp)"
  private val Usage = "A struct of low_watermark and completeness; null if the bytes aren't a stamp."

  val parseStamp: ReplayFunctions.Description = (
    FunctionIdentifier("parse_watermark_stamp"),
    new ExpressionInfo(
      classOf[ParseWatermarkStamp].getName,
      null,
      "parse_watermark_stamp",
      s"$Call - $Usage",
      "",
      "",
      "",
      "misc_funcs",
      "",
      "",
      ""
    ),
    (arguments: Seq[Expression]) =>
      arguments match {
        case Seq(stamp) => ParseWatermarkStamp(stamp)
        case other => throw Errors.functionArguments(Call, other.size)
      }
  )
}
