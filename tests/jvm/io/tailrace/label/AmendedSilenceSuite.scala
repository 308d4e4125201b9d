package io.tailrace.label

import org.scalacheck.Gen
import org.scalactic.anyvals.PosInt
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit._

/** Left rows that silence has let out are amended by all that comes for them: the watermark hasn't passed it. */
final class AmendedSilenceSuite extends SparkSuite with ScalaCheckPropertyChecks with SlowSuite {
  import LabelJoinPropertySuite.{Scenario, scenarios}

  private val limit = 60L * 60 * 1000

  private def pass(h: StreamHarness, clock: ManualClock): Seq[Amended] =
    (1 to 8).flatMap { _ =>
      clock.advance(limit / 8)
      h.settle().flatten.map(Amended.of)
    }

  private def served(t: Double, id: Int) = Served("k", seconds(t), id)
  private def engaged(t: Double, id: Int) = Engaged("k", seconds(t), id)
  private def group(t: Double, id: Int, labels: Int*) =
    Amended(Some("k"), Some(seconds(t)), Some(id), labels, None, None)
  private def amendment(t: Double, labels: Int*) =
    Amended(Some("k"), Some(seconds(t)), None, labels, None, Some("amended"))

  test("labels in time and late ones amend what silence has let out, until the watermark says so") {
    val o = options("10 seconds").copy(
      releaseEvery = Some("batch"),
      idleTimeout = Some("1 hour"),
      amendFor = Some("20 seconds")
    )
    withClock { (d, clock) =>
      val h = new StreamHarness(spark, d, Some(clock))(join(o)).start()
      def rows(served: Seq[Served], engaged: Seq[Engaged]) = h.rows(served, engaged).flatten.map(Amended.of)
      assert(rows(Seq(served(101, 1), served(104, 2)), Seq(engaged(102, 10))).isEmpty)
      assert(pass(h, clock).toSet == Set(group(101, 1, 10), group(104, 2)))
      // The watermark is 102.
      assert(rows(Nil, Seq(engaged(105, 11))).toSet == Set(amendment(101, 10, 11), amendment(104, 11)))
      assert(rows(Nil, Seq(engaged(101.5, 12))) == Seq(amendment(101, 12, 10, 11)))
      h.restart()
      // Its row is in the window of 104, and of the one that comes with it.
      assert(rows(Seq(served(105, 3)), Seq(engaged(113, 13))) == Seq(amendment(104, 11, 13)))
      assert(pass(h, clock) == Seq(group(105, 3, 11, 13)))
      assert(h.total(LabelMetrics.RowsAfterFlush) == 0 && h.total(LabelMetrics.FlushedByIdleTimeout) == 1)
      // What may be amended ends at 101, 104 and 105 and 30 seconds.
      rows(Seq(served(134, 4)), Seq(engaged(134, 14)))
      assert(rows(Nil, Seq(engaged(105, 15))) == Seq(amendment(105, 11, 15, 13)))
      rows(Seq(served(135, 5)), Seq(engaged(135, 16)))
      assert(rows(Nil, Seq(engaged(105, 17))).isEmpty && h.total(LabelMetrics.LateRightRows) == 1)
    }
  }

  private def optionsOf(s: Scenario, amendFor: Long): JoinOptions =
    s.options.copy(idleTimeout = Some("1 hour"), amendFor = Some(s"$amendFor microseconds"))

  private var amended = 0L
  private var closed = 0L

  private def run(s: Scenario, amendFor: Long, quiet: Set[Int]): Unit = withConf(s.settings: _*) {
    withClock { (directory, clock) =>
      val h = new StreamHarness(spark, directory, Some(clock))(
        join(optionsOf(s, amendFor), s"${s.delays._1} milliseconds", s"${s.delays._2} milliseconds")
      ).start()
      val oracle =
        new AmendmentOracle(s.before, s.after, amendFor, s.matching, s.maxMatches, s.marksLate, s.delays)
      s.batches.zipWithIndex.foreach { case ((served, engaged), i) =>
        if (s.restarts(i)) {
          closed += h.total(LabelMetrics.FlushedByIdleTimeout)
          h.restart()
          oracle.restart()
        }
        val rows = h.rows(served, engaged).map(batch => Amended.sorted(batch.map(Amended.of)))
        assert(rows == oracle.step(served, engaged), s"after batch $i of the input, amend_for $amendFor")
        if (quiet(i)) assert(Amended.sorted(pass(h, clock)) == oracle.silence(), s"silence after batch $i")
      }
      closed += h.total(LabelMetrics.FlushedByIdleTimeout)
      amended += oracle.amendments
    }
  }

  /** With right rows at the end for all times that there were. */
  private val scenarioOf = scenarios(grouped = true).map { s =>
    val again = s.batches.flatMap(_._2).zipWithIndex.map { case (r, i) => r.copy(rid = 2000 + i) }
    s.copy(batches = s.batches :+ (Nil -> again))
  }
  private val amendFors = Gen.oneOf(1L, 3000000L, 10000000L, 45000000L)

  for ((count, tags) <- Campaign.sizes(3, 30))
    test(s"each micro-batch, and each silence, gives the rows of the oracle: $count scenarios", tags: _*) {
      val quiet = Gen.someOf(0 until 5).map(_.toSet)
      forAll(scenarioOf, amendFors, quiet, minSuccessful(PosInt.ensuringValid(count)))(run)
      assert(amended > 0 && closed > 0)
    }
}
