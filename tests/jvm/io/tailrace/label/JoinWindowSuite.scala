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
    assert(window.rightExpiryAtWindowEnd(window.leftExpiry(100)) == 50)
  }

  test("a pair may have waited for the longer side of the window") {
    assert(window.longestWait(takesLate = false) == 30)
    assert(JoinWindow(before = 40, after = 30).longestWait(takesLate = false) == 40)
  }

  test("a pair's late right row may be before a left row that has waited") {
    assert(window.longestWait(takesLate = true) == 50)
    assert(JoinWindow(Long.MaxValue, 1).longestWait(takesLate = true) == Long.MaxValue)
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
    assert(JoinWindow(Long.MaxValue, Long.MaxValue).rightExpiryAtWindowEnd(-5) == NoWatermark + 1)
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
        if (l > w.leftExpiry(watermark.toLong))
          assert(r > w.rightExpiryAtWindowEnd(w.leftExpiry(watermark.toLong)))
      }
    }
  }

  test("left rows are released in steps, which begin at another time in each partition") {
    val steps = ReleaseSteps(20)
    def releases(partition: Int): Seq[Long] =
      Seq(5L, 15L, 25L, 35L).scanLeft(0L)(steps.through(_, _, partition, partitions = 2)).tail
    assert(releases(0) == Seq(0, 0, 25, 25))
    assert(releases(1) == Seq(0, 15, 15, 35))
  }

  test("the first watermark releases, and one that moves by a step releases up to itself") {
    val steps = ReleaseSteps(20)
    assert(steps.through(NoWatermark, NoWatermark, 0, 1) == NoWatermark)
    assert(steps.through(NoWatermark, 7, 0, 1) == 7)
    assert(steps.through(7, 27, 0, 1) == 27)
    assert(steps.through(27, 10, 0, 1) == 27)
    assert(ReleaseSteps.EachBatch.through(7, 8, 0, 1) == 8)
  }

  test("no left row is held back for longer than a step, and none again after it has come out") {
    forAll { (moves: List[Byte], every: Byte, start: Int, partition: Byte, more: Byte) =>
      val steps = ReleaseSteps(Math.abs(every.toLong))
      val partitions = 1 + Math.floorMod(more.toInt, 8)
      val place = Math.floorMod(partition.toInt, partitions)
      val expiries =
        moves.scanLeft(start.toLong)((time, move) => JoinWindow.saturatingAdd(time, Math.abs(move.toLong)))
      expiries.filter(_ != NoWatermark).foldLeft(NoWatermark) { (released, expiry) =>
        val through = steps.through(released, expiry, place, partitions)
        assert(through == released || through == expiry)
        assert(through >= JoinWindow.saturatingAdd(expiry, -steps.every))
        assert(through >= released)
        through
      }
    }
  }

  test("by default a step is a 64th of the window") {
    assert(ReleaseSteps.default(JoinWindow(0, 30L * 60 * 1000 * 1000)).every == 28125000)
    assert(ReleaseSteps.default(JoinWindow(Long.MaxValue, Long.MaxValue)).every == Long.MaxValue / 64)
  }
}
