package io.tailrace.windows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateMutableProjection
import org.apache.spark.sql.types.{LongType, TimestampType}
import org.scalatest.funsuite.AnyFunSuite

final class WindowsSuite extends AnyFunSuite {
  private val hour = 3600L * 1000000
  private def micros(time: String): Long = java.time.Instant.parse(time).getEpochSecond * 1000000

  test("a time is in one window, and a window's end is the next one's") {
    val windows = Windows(10, 0)
    assert(Seq(0L, 9L, 10L, 11L, -1L, -10L, -11L).map(windows.start) == Seq(0, 0, 10, 10, -10, -10, -20))
    assert(windows.end(10) == 20)
  }

  test("windows with an offset start that much later") {
    val windows = Windows(10, 3)
    assert(Seq(2L, 3L, 12L, 13L, -7L, -8L).map(windows.start) == Seq(-7, 3, 3, 13, -7, -17))
    assert(
      Windows(24 * hour, 16 * hour).start(micros("2026-01-01T15:59:59Z")) == micros("2025-12-31T16:00:00Z")
    )
  }

  test("windows at the ends of time do not overflow") {
    val windows = Windows(hour, 0)
    val last = windows.start(Long.MaxValue)
    assert(last <= Long.MaxValue && windows.end(last) == Long.MaxValue)
    intercept[ArithmeticException](windows.start(Long.MinValue))
  }

  test("times without a window are those before the year 2 and after 9998, for Spark's expression as well") {
    val windows = Windows(hour, 0)
    val (first, end) = (micros("0002-01-01T00:00:00Z"), micros("9999-01-01T00:00:00Z"))
    Seq(Long.MinValue -> false, (first - 1) -> false, first -> true, (end - 1) -> true, end -> false)
      .foreach { case (time, lands) =>
        assert(windows.lands(time) == lands)
        val start = WindowStart(Literal(time, TimestampType), windows)
        assert(start.eval() == (if (lands) windows.start(time) else null))
        assert(
          GenerateMutableProjection.generate(Seq(start))(InternalRow.empty).get(0, LongType) == start.eval()
        )
      }
    assert(windows.closedBy(first - 1).isEmpty && windows.closedBy(Long.MinValue).isEmpty)
    assert(windows.closedBy(Long.MaxValue).contains(end))
  }

  test("a width or an offset that makes no windows is refused") {
    Seq((0L, 0L), (10L, 10L), (10L, -1L)).foreach { case (width, offset) =>
      intercept[IllegalArgumentException](Windows(width, offset))
    }
  }

  test("names say the start in UTC, sort as times do, and are read back") {
    val noon = micros("2026-01-01T12:00:00Z")
    assert(WindowName.of(noon) == "20260101T120000Z")
    assert(WindowName.of(noon + 500000) == "20260101T120000.500000Z")
    assert(WindowName.of(-1) == "19691231T235959.999999Z")
    val times = Seq(-62000000000000000L, -1L, 0L, 1L, noon, noon + 1, noon + hour, 300000000000000000L)
    times.foreach(t => assert(WindowName.parse(WindowName.of(t)).contains(t), WindowName.of(t)))
    Seq("", "20260101", "20261301T000000Z", "20260101T250000Z", "__HIVE_DEFAULT_PARTITION__", "1e9")
      .foreach(n => assert(WindowName.parse(n).isEmpty, n))
  }
}
