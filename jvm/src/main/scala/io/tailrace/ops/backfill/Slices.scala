package io.tailrace.ops.backfill

import org.apache.spark.sql.functions.{lit, timestamp_micros}
import org.apache.spark.sql.tailrace.{FrameParts, FrameStream}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Column, DataFrame}
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, parseOpt, render}
import org.json4s.{JInt, JObject}

import io.tailrace.common.Errors
import io.tailrace.plan.Columns.named

/** The slices of time in which a backfill reads its tables, all tables the same ones. Times are in microseconds.
  *
  * {{{
  *   starts: 1 Mar, 2 Mar, 5 Mar     no table has a row of 3 or 4 Mar
  *   micro-batch 0   rows without a time, and before 2 Mar
  *   micro-batch 1   from 2 Mar on, before 5 Mar
  *   micro-batch 2   from 5 Mar on
  * }}}
  *
  * So the event times of a micro-batch are later than the watermark of all before it: no row is late.
  *
  * @param starts the beginnings, in ascending order; at least one
  */
final case class Slices(starts: IndexedSeq[Long]) {
  require(starts.nonEmpty)

  def count: Int = starts.size

  /** The rows of some slices.
    *
    * @param from  the number of the first one
    * @param until the number of the one that follows the last
    * @param end   rows from there on don't belong to the table's history; none: all do
    */
  def rows(time: Column, from: Int, until: Int, end: Option[Long]): Column = {
    def at(micros: Long) = timestamp_micros(lit(micros))
    val last = (starts.lift(until).toSeq ++ end).minOption
    val begun = Option.when(from > 0)(starts.lift(from)).flatten.map(time >= at(_))
    val timed = (begun ++ last.map(time < at(_))).reduceOption(_ && _).getOrElse(lit(true))
    // A micro-batch without rows that runs again begins and ends behind the last slice.
    if (from >= until) lit(false)
    else if (from == 0) timed || time.isNull
    else timed
  }
}

/** The number of slices that a stream of a backfill has read: `{"tailrace_slices":3,"of":30}` in Spark's log of offsets. */
private[backfill] final case class SliceOffset(read: Int, of: Int) {
  def json: String = compact(render((SliceOffset.Read -> read) ~ (SliceOffset.Of -> of)))
  def isLast: Boolean = read == of
}

private[backfill] object SliceOffset {
  private val Read = "tailrace_slices"
  private val Of = "of"

  /** @return none: it is another source's */
  def parse(json: String): Option[SliceOffset] = parseOpt(json).collect {
    case JObject(List((Read, JInt(read)), (Of, JInt(of)))) if read.isValidInt && of.isValidInt =>
      SliceOffset(read.toInt, of.toInt)
  }
}

/** One table of a backfill, slice by slice.
  *
  * @param time  the column by which it is sliced
  * @param until rows from there on are left out; none: no rows are
  * @param live  the columns of the stream that follows. State of a column that is NOT NULL can't be read by a stream in
  *              which it is nullable, which most streams are in all columns
  */
private[tailrace] final class SlicedTable(
    table: DataFrame,
    time: String,
    slices: Slices,
    until: Option[Long],
    live: StructType
) extends FrameParts {
  override val columns: StructType = FrameStream.nullableAsEither(table.schema, live)

  override def next(offset: Option[String]): String = {
    val read = offset.fold(0)(of(_).read)
    SliceOffset(Math.min(read + 1, slices.count), slices.count).json
  }

  override def end: String = SliceOffset(slices.count, slices.count).json

  override def rows(from: Option[String], to: String): DataFrame = {
    val read = from.fold(0)(of(_).read)
    table.where(slices.rows(named(time), read, of(to).read, until))
  }

  private def of(json: String): SliceOffset =
    SliceOffset
      .parse(json)
      .filter(_.of == slices.count)
      .getOrElse(throw Errors.stateFileCorrupt("of the offset log", s"no offset of this backfill: $json"))
}
