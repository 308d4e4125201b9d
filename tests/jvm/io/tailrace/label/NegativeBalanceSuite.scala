package io.tailrace.label

import scala.util.Random

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.state.{BalanceCounts, BalanceStep}

final class NegativeBalanceSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val over = 3600L * 1000 * 1000
  private val three = NegativeBalance(Seq("click" -> 3.0), over, start = 0.5)

  private def counts(positives: Long, negatives: Long) =
    BalanceCounts(Seq("click"), Seq(BalanceStep(0, Seq(positives), negatives)))

  private def rate(of: NegativeBalance, before: BalanceCounts): Double = of.after(Some(before)).rate

  test("the rate is the ratio times the positives over the negatives, and at most 1") {
    assert(rate(three, counts(4, 100)) == 0.12)
    assert(rate(three, counts(100, 100)) == 1.0)
  }

  test("a partition that has emitted nothing has the rate that it starts with") {
    assert(three.after(None).rate == 0.5)
    assert(rate(three, BalanceCounts(Seq("click"), Nil)) == 0.5)
  }

  test("without positives, or without negatives, it is that of one") {
    assert(rate(three, counts(0, 100)) == 0.03)
    assert(rate(three.copy(ratios = Seq("click" -> 0.1)), counts(5, 0)) == 0.5)
    assert(rate(three, counts(0, 0)) == 1.0)
  }

  test("of several labels the one that asks for the most negatives counts") {
    val both = three.copy(ratios = Seq("click" -> 3.0, "buy" -> 10.0))
    def before(clicks: Long, buys: Long) =
      BalanceCounts(Seq("click", "buy"), Seq(BalanceStep(0, Seq(clicks, buys), 1000)))
    assert(rate(both, before(50, 2)) == 0.15)
    assert(rate(both, before(50, 20)) == 0.2)
    // In whatever order the state has them.
    val turned = BalanceCounts(Seq("buy", "click"), Seq(BalanceStep(0, Seq(2, 50), 1000)))
    assert(rate(both, turned) == 0.15)
  }

  test("counts of other labels say nothing") {
    assert(rate(three.copy(ratios = Seq("buy" -> 3.0)), counts(4, 100)) == 0.5)
    assert(rate(three.copy(ratios = Seq("click" -> 3.0, "buy" -> 1.0)), counts(4, 100)) == 0.5)
  }

  test("another ratio counts at once, and so does another window") {
    assert(rate(three.copy(ratios = Seq("click" -> 1.0)), counts(4, 100)) == 0.04)
    val steps = Seq(BalanceStep(0, Seq(90), 100), BalanceStep(over / 2, Seq(4), 100))
    val before = BalanceCounts(Seq("click"), steps)
    assert(rate(three, before) == 1.0)
    assert(rate(three.copy(over = over / 2), before) == 0.12)
  }

  /** Releases of a partition, each with its positives and negatives, and the rate that it is decided by. */
  private def decided(of: NegativeBalance, releases: Seq[(Long, Long)]): Seq[Double] =
    releases.zipWithIndex
      .scanLeft((of.after(None).rate, Option.empty[BalanceCounts])) { case ((_, before), ((p, n), i)) =>
        val known = before.getOrElse(BalanceCounts(of.ratios.map(_._1), Nil))
        val next = known.add(i * over / 8, (Seq(p), n), of.over)
        (of.after(Some(next)).rate, Some(next))
      }
      .map(_._1)
      .init

  private val bursts: Gen[Seq[(Long, Long)]] = Gen.listOfN(
    24,
    Gen.zip(Gen.frequency(3 -> Gen.choose(1L, 20L), 1 -> Gen.choose(50L, 200L)), Gen.choose(50L, 800L))
  )

  test(
    "the negatives that a release keeps on average deviate from the ratio by what its odds deviate from the window's"
  ) {
    forAll(bursts) { releases =>
      val rates = decided(three, releases)
      (1 until releases.size).foreach { i =>
        val window = releases.slice(Math.max(0, i - 8), i)
        val (p, n) = releases(i)
        val windowOdds = window.map(_._1).sum.toDouble / window.map(_._2).sum.toDouble
        val change = windowOdds / (p.toDouble / n.toDouble)
        val achieved = rates(i) * n.toDouble / p.toDouble
        // Where all negatives are kept, there are too few of them.
        if (rates(i) < 1) assert(Math.abs(achieved / 3.0 / change - 1) < 1e-9)
        else assert(achieved <= 3.0 * change * (1 + 1e-9))
      }
    }
  }

  test("with few positives in a window, too many negatives are kept on average, by the bound of the guide") {
    val negatives = 100000L
    Seq(0.1, 1.0, 3.0).foreach { mean =>
      // The probabilities of Poisson.
      val chances = (0 until 40).scanLeft(Math.exp(-mean)) { (chance, i) => chance * mean / (i + 1) }
      val kept = chances.zipWithIndex.map { case (chance, positives) =>
        chance * rate(three, counts(positives.toLong, negatives)) * negatives.toDouble
      }.sum
      val ratio = kept / mean / 3.0
      assert(Math.abs(ratio - (mean + Math.exp(-mean)) / mean) < 1e-9)
      assert(ratio > 1)
    }
  }

  test("over many seeds, weighted negatives estimate those that there were, in each release") {
    val random = new Random(1)
    val releases = Seq.tabulate(24)(i => (if (i % 7 == 0) 60L else 4L + i % 3) -> (200L + 40 * (i % 5)))
    val rates = decided(three.copy(start = 0.2), releases)
    val seeds = 2000
    assert(rates.count(_ < 0.5) > 12)
    releases.zip(rates).foreach { case ((_, negatives), rate) =>
      val estimates = Seq.fill(seeds)((1L to negatives).count(_ => random.nextDouble() < rate) / rate)
      val deviation = Math.sqrt(negatives * (1 - rate) / rate / seeds)
      assert(Math.abs(estimates.sum / seeds - negatives) <= 4.5 * deviation + 1e-9)
    }
  }
}
