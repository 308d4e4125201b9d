package io.tailrace.state

import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

final class BalanceCountsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val over = 160L
  private val none = BalanceCounts(Seq("click"), Nil)

  private def counted(batches: (Long, Long, Long)*): BalanceCounts =
    batches.foldLeft(none) { case (counts, (through, positives, negatives)) =>
      counts.add(through, (Seq(positives), negatives), over)
    }

  test("examples are counted by steps of a sixteenth of the window") {
    val counts = counted((100, 1, 10), (109, 2, 20), (110, 0, 5))
    assert(counts.steps == Seq(BalanceStep(100, Seq(3), 30), BalanceStep(110, Seq(0), 5)))
  }

  test("steps before 1970 begin at multiples of their length, too") {
    val counts = counted((-11, 1, 1), (-10, 1, 2), (-1, 1, 3), (0, 1, 4))
    assert(counts.steps.map(step => step.time -> step.negatives) == Seq(-20 -> 1, -10 -> 5, 0 -> 4))
  }

  test("a step leaves when the newest one with examples is `over` later, and not before") {
    assert(counted((100, 1, 1), (259, 2, 2)).steps.map(_.time) == Seq(100, 250))
    assert(counted((100, 1, 1), (260, 2, 2)).steps.map(_.time) == Seq(260))
    // However long nothing is emitted, the last window with examples is there.
    assert(counted((100, 1, 1)).within(over).map(_.time) == Seq(100))
  }

  test("with another `over` the steps stay where they were") {
    val counts = counted((100, 1, 1), (110, 2, 2))
    assert(counts.within(10).map(_.time) == Seq(110))
    // 115 is in the step that begins at 0 now, and is counted with the newest one.
    assert(counts.add(115, (Seq(1L), 1L), 1600).steps.last == BalanceStep(110, Seq(3), 3))
  }

  test("the ends of time are times") {
    val counts = counted((Long.MinValue, 1, 1), (Long.MinValue + 3, 1, 1), (0, 1, 1), (Long.MaxValue, 1, 1))
    assert(counts.steps.map(_.negatives) == Seq(1))
    assert(counted((Long.MinValue, 1, 1), (Long.MinValue + 3, 1, 1)).steps.map(_.negatives) == Seq(2))
  }

  test("there are never more steps than a window has, and their sum is that of the window's batches") {
    val batches = Gen.listOf(Gen.zip(Gen.choose(0L, 400L), Gen.choose(0L, 9L), Gen.choose(0L, 9L)))
    forAll(batches) { some =>
      val all = some.sortBy(_._1)
      val counts = counted(all: _*)
      assert(counts.steps.size <= BalanceCounts.StepsPerWindow)
      val newest = all.lastOption.fold(0L)(_._1 / 10 * 10)
      val within = all.filter(_._1 / 10 * 10 > newest - over)
      assert(counts.steps.map(_.negatives).sum == within.map(_._3).sum)
      assert(counts.steps.map(_.positives.head).sum == within.map(_._2).sum)
    }
  }

  test(
    "a partition that is split and merged again has the counts that it had; others are summed, in any order"
  ) {
    val one = counted((100, 1, 10), (120, 2, 20))
    val other = counted((110, 3, 30), (120, 4, 40))
    assert(BalanceCounts.merged(Seq(Some(one), Some(one))).contains(one))
    val sum = BalanceCounts(
      Seq("click"),
      Seq(BalanceStep(100, Seq(1), 10), BalanceStep(110, Seq(3), 30), BalanceStep(120, Seq(6), 60))
    )
    assert(BalanceCounts.merged(Seq(Some(one), Some(other))).contains(sum))
    assert(BalanceCounts.merged(Seq(Some(other), Some(one))).contains(sum))
    assert(BalanceCounts.merged(Seq(None, Some(one))).contains(one))
    assert(BalanceCounts.merged(Seq(None, None)).isEmpty)
    // Counts of other labels count other negatives.
    assert(BalanceCounts.merged(Seq(Some(one), Some(other.copy(labels = Seq("buy"))))).isEmpty)
  }

  test("counts that are merged have the examples of all") {
    val some = Gen.listOf(Gen.zip(Gen.choose(0L, 99L), Gen.choose(0L, 9L), Gen.choose(0L, 9L)))
    forAll(Gen.listOfN(3, some), Arbitrary.arbitrary[Boolean]) { (each, twice) =>
      val parts = each.map(batches => counted(batches.sortBy(_._1): _*))
      val all = (if (twice) parts :+ parts.head else parts).map(Option(_))
      whenever(all.distinct.size > 1) {
        val merged = BalanceCounts.merged(all).get
        assert(merged.steps.map(_.time) == merged.steps.map(_.time).distinct.sorted)
        assert(merged.steps.map(_.negatives).sum == all.flatten.flatMap(_.steps).map(_.negatives).sum)
      }
    }
  }
}
