package io.tailrace.ops.backfill

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.{col, timestamp_micros, unix_micros}

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.SparkSuite

/** Which rows of a table each micro-batch of a backfill reads. Times are in microseconds. */
final class SlicesSuite extends SparkSuite {
  import spark.implicits._

  private val slices = Slices(IndexedSeq(0L, 100L, 500L))
  private val times: Seq[Option[Long]] =
    None +: Seq(-1L, 0L, 99L, 100L, 101L, 499L, 500L, 10000L).map(Option(_))

  private def table: DataFrame =
    times.map(Tuple1(_)).toDF("micros").select(timestamp_micros(col("micros")).as("t"))

  private def timesOf(rows: DataFrame): Seq[Option[Long]] =
    rows
      .select(unix_micros(col("t")))
      .collect()
      .toSeq
      .map(row => Option.when(!row.isNullAt(0))(row.getLong(0)))

  private def read(from: Int, until: Int, end: Option[Long] = None): Seq[Option[Long]] =
    timesOf(table.where(slices.rows(col("t"), from, until, end)))

  test(
    "a slice begins with its start and ends before the next one; the first has what is earlier or has no time"
  ) {
    assert(read(0, 1) == Seq(None, Some(-1L), Some(0L), Some(99L)))
    assert(read(1, 2) == Seq(100L, 101L, 499L).map(Option(_)))
    assert(read(2, 3) == Seq(500L, 10000L).map(Option(_)))
    assert(read(0, 3) == times && read(1, 3) == times.drop(4))
  }

  test("a micro-batch without slices has no row") {
    assert((0 to 3).flatMap(i => read(i, i)).isEmpty)
  }

  test("what is at the end of a table's history, or later, is in no slice") {
    assert(read(0, 1, end = Some(99)) == Seq(None, Some(-1L), Some(0L)))
    assert(read(1, 2, end = Some(100)).isEmpty && read(1, 2, end = Some(101)) == Seq(Some(100L)))
    assert(read(2, 3, end = Some(500)).isEmpty && read(2, 3, end = Some(501)) == Seq(Some(500L)))
    // Slices of other tables follow.
    assert(read(2, 3, end = Some(100)).isEmpty)
    assert(read(1, 2, end = Some(10000)) == read(1, 2))
  }

  test("a table gives its slices one by one, and then none") {
    val sliced = new SlicedTable(table, "t", slices, Some(10000L), table.schema)
    val offsets = Iterator.iterate(Option.empty[String])(before => Some(sliced.next(before))).take(6).toSeq
    assert(offsets.flatten.flatMap(SliceOffset.parse(_)).map(_.read) == Seq(1, 2, 3, 3, 3))
    val rows = offsets.zip(offsets.drop(1)).map { case (from, to) => timesOf(sliced.rows(from, to.get)) }
    assert(rows.flatten == times.dropRight(1) && rows.map(_.size) == Seq(4, 3, 1, 0, 0))
  }

  test("an offset of another backfill is refused") {
    val sliced = new SlicedTable(table, "t", slices, None, table.schema)
    Seq(SliceOffset(1, 4).json, """{"logOffset":1}""").foreach { other =>
      val refused = intercept[TailraceStateException](sliced.next(Some(other)))
      assert(refused.getCondition == "TAILRACE_STATE_FILE_CORRUPT")
    }
  }
}
