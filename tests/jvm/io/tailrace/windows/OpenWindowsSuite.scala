package io.tailrace.windows

import org.scalatest.funsuite.AnyFunSuite

private object OpenWindowsSuite {
  val YearOne: Long = java.time.Instant.parse("0001-01-01T00:00:00Z").getEpochSecond * 1000000
  val Last: Long = java.time.Instant.parse("9998-12-31T23:59:59Z").getEpochSecond * 1000000
}

final class OpenWindowsSuite extends AnyFunSuite {
  private val none = OpenWindows.none(Windows(10, 0))

  private val hours = Windows(3600L * 1000000, 0)

  private def closed(windows: OpenWindows, low: Long): Seq[(Long, Long)] =
    windows.close(low).toSeq.flatMap(_.closed)

  test("a window closes when the low watermark is at its end, and not a microsecond before") {
    val open = none.add(Seq(0L -> 2L, 10L -> 1L))
    assert(open.close(9).isEmpty)
    assert(closed(open, 10) == Seq(0L -> 2L))
    assert(closed(open, 19) == Seq(0L -> 2L))
    assert(closed(open, 20) == Seq(0L -> 2L, 10L -> 1L))
  }

  test("what has closed stays closed, and later rows for it are late") {
    val left = none.add(Seq(0L -> 2L, 10L -> 1L)).close(10).get.left
    assert(left.isClosed(0) && left.isClosed(-500) && !left.isClosed(10))
    assert(left.close(10).isEmpty && left.close(5).isEmpty && left.close(Long.MinValue + 100).isEmpty)
    intercept[IllegalArgumentException](left.add(Seq(0L -> 1L)))
    assert(closed(left.add(Seq(10L -> 3L)), 25) == Seq(10L -> 4L))
  }

  test("windows without rows close too, from the first one that has some") {
    assert(none.close(1000).isEmpty)
    assert(closed(none.add(Seq(20L -> 1L, 50L -> 2L)), 60) == Seq(20 -> 1, 30 -> 0, 40 -> 0, 50 -> 2))
    val left = none.add(Seq(20L -> 1L)).close(30).get.left
    assert(closed(left, 55) == Seq(30L -> 0L, 40L -> 0L))
  }

  test("a low watermark at either end of time closes what has ended, and breaks nothing") {
    val absurd = hours.start(OpenWindowsSuite.YearOne)
    val open = OpenWindows.none(hours).add(Seq(absurd -> 1L, 0L -> 2L))
    Seq(Long.MinValue, Long.MinValue + 1, OpenWindowsSuite.YearOne - 1).foreach(low =>
      assert(open.close(low).isEmpty)
    )
    assert(closed(open, 3600L * 1000000) == Seq(absurd -> 1L, 0L -> 2L))
    val last = open.close(Long.MaxValue).get
    assert(last.closed == Seq(absurd -> 1L, 0L -> 2L) && last.left.close(Long.MaxValue).isEmpty)
    assert(last.left.isClosed(hours.start(OpenWindowsSuite.Last)))
  }

  test("too many windows without rows aren't made; those with rows are") {
    val most = OpenWindows.MostEmpty
    val fits = none.add(Seq(0L -> 1L)).close(10L * (most + 1)).get
    assert(fits.closed.size == most + 1 && fits.unmarked == 0)
    val bogus = none.add(Seq(0L -> 1L, 10L * most * 5 -> 1L)).close(10L * most * 5 + 10).get
    assert(bogus.closed == Seq(0L -> 1L, 10L * most * 5 -> 1L))
    assert(bogus.unmarked > 0 && bogus.left.isClosed(10))
  }
}
