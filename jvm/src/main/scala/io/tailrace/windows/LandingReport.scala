package io.tailrace.windows

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.types._

/** What the last batch has done to a folder, for the query's progress. Times are microseconds; none: not yet.
  *
  * @param rows    that it has landed, late ones and those without an event time among them
  * @param open    windows that have rows and are open
  * @param through all windows that end then or before are closed
  * @param low     the low watermark that closes windows
  */
final case class LandingReport(
    rows: Long = 0,
    late: Long = 0,
    untimed: Long = 0,
    open: Long = 0,
    through: Option[Long] = None,
    low: Option[Long] = None
) {
  def row: Row = new GenericRowWithSchema(
    Array(rows, late, untimed, open, timestamp(through), timestamp(low)),
    LandingReport.Schema
  )

  private def timestamp(micros: Option[Long]) = micros.map(DateTimeUtils.toJavaTimestamp).orNull
}

object LandingReport {

  /** In the query's progress. */
  val Name = "tailrace.windows"

  private val Schema = new StructType()
    .add("rows", LongType)
    .add("lateRows", LongType)
    .add("untimedRows", LongType)
    .add("openWindows", LongType)
    .add("closedThrough", TimestampType)
    .add("lowWatermark", TimestampType)
}
