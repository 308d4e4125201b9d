package io.tailrace.label

import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class JoinWindowSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import JoinWindow.NoWatermark

  private val window = JoinWindow(before = 20, after = 30)

  test("the bounds of a left row are the ends of its window") {
    assert(window.lowerBound(100) == 80)
    assert(window.upperBound(100) == 130)
  }

  test("a left row expires when the watermark has reached its upper bound") {
    assert(window.leftExpiry(129) == 99)
    assert(window.leftExpiry(130) == 100)
  }

  test("a right row is kept as long as a left row may match it that waits or is still to come") {
    assert(window.rightExpiryOnMatch(100) == 80)
    assert(window.rightExpiryAtWindowEnd(100) == 50)
  }

  test("a pair may have waited for the longer side of the window") {
    assert(window.longestWait == 30)
    assert(JoinWindow(before = 40, after = 30).longestWait == 40)
  }

  test("a row at the watermark is late; without a watermark no row is") {
    assert(JoinWindow.isLate(99, 100))
    assert(JoinWindow.isLate(100, 100))
    assert(!JoinWindow.isLate(101, 100))
    assert(!JoinWindow.isLate(Long.MinValue, NoWatermark))
  }

  test("without a watermark no row expires, whatever the window") {
    Seq(window, JoinWindow(0, 0), JoinWindow(Long.MaxValue, Long.MaxValue)).foreach { w =>
      assert(w.leftExpiry(NoWatermark) == NoWatermark)
      assert(w.rightExpiryOnMatch(NoWatermark) == NoWatermark)
      assert(w.rightExpiryAtWindowEnd(NoWatermark) == NoWatermark)
    }
  }

  test("bounds stop at the ends of time, and an expiry never becomes the value for no watermark") {
    assert(JoinWindow(0, Long.MaxValue).upperBound(1) == Long.MaxValue)
    assert(JoinWindow(Long.MaxValue, 0).lowerBound(-2) == Long.MinValue)
    assert(window.upperBound(Long.MinValue) == Long.MinValue + 30)
    assert(JoinWindow(Long.MaxValue, Long.MaxValue).rightExpiryAtWindowEnd(5) == NoWatermark + 1)
  }

  test("a match never comes after the expiry of either side") {
    forAll { (l: Int, r: Int, before: Short, after: Short, watermark: Int) =>
      val w = JoinWindow(Math.abs(before.toLong), Math.abs(after.toLong))
      val isMatch = r >= w.lowerBound(l.toLong) && r <= w.upperBound(l.toLong)
      assert(isMatch == (r.toLong - l >= -w.before && r.toLong - l <= w.after))
      if (isMatch) {
        // The later one is not late, so the earlier one must still be there.
        if (r > watermark) assert(l > w.leftExpiry(watermark.toLong))
        if (l > watermark) assert(r > w.rightExpiryOnMatch(watermark.toLong))
        if (l > w.leftExpiry(watermark.toLong)) assert(r > w.rightExpiryAtWindowEnd(watermark.toLong))
      }
    }
  }
}
