package io.tailrace.label

import org.scalacheck.Gen
import org.scalactic.anyvals.PosInt
import org.scalatest.Assertion
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.api.Tailrace
import io.tailrace.common.TimeSpan
import io.tailrace.testkit.Times
import io.tailrace.testkit.{
  Campaign,
  Emitted,
  Engaged,
  JoinOracle,
  Served,
  SlowSuite,
  SparkSuite,
  StreamHarness
}

/** Right rows that no left row has, against brute force: random orders, lags, batch cuts, windows and restarts. */
final class OrphansPropertySuite extends SparkSuite with ScalaCheckPropertyChecks with SlowSuite {
  import LabelJoinPropertySuite.{Scenario, scenarios}

  private def optionsOf(s: Scenario): JoinOptions =
    s.options.copy(lateLabels = s.lateLabels, lateImpressions = s.lateImpressions, orphans = true)

  private def oracleOf(s: Scenario, delays: (Long, Long)): JoinOracle = new JoinOracle(
    s.before,
    s.after,
    grouped = true,
    s.matching,
    s.maxMatches,
    s.marksLate,
    delays,
    s.lateLabels.getOrElse(true),
    lateLefts = s.lateImpressions.getOrElse(true),
    orphans = true
  )

  private val ends = Times.seconds(100000)
  private val end = (Seq(Served("end", ends, -1)), Seq(Engaged("nobody", ends, -2)))

  /** Runs the join and the oracle side by side. `compare` gets the rows of both after each batch. */
  private def sideBySide(s: Scenario, o: JoinOptions)(
      compare: (Int, Seq[Seq[Emitted]], Seq[Seq[Emitted]]) => Unit
  ): JoinOracle = {
    val oracle = oracleOf(s, s.delays)
    withDirectory { directory =>
      withConf(s.settings: _*) {
        val (left, right) = s.delays
        val h = new StreamHarness(spark, directory)(
          StreamHarness.join(o, s"$left milliseconds", s"$right milliseconds")
        ).start()
        var counted = 0L
        (s.batches :+ end).zipWithIndex.foreach { case ((served, engaged), i) =>
          if (s.restarts(i)) {
            counted += h.total(LabelMetrics.UnmatchedRightRows)
            h.restart()
            oracle.restart()
          }
          compare(i, h.step(served, engaged), oracle.step(served, engaged))
        }
        assert(counted + h.total(LabelMetrics.UnmatchedRightRows) == oracle.unmatched)
        if (!s.marksLate) assert(h.dropped <= oracle.lateLeft)
        assert(h.changed.isEmpty)
      }
    }
    oracle
  }

  private var unmatched = 0L

  for ((count, tags) <- Campaign.sizes(4, 40))
    test(s"each micro-batch gives the rows of the oracle: $count scenarios", tags: _*) {
      forAll(scenarios(grouped = true), minSuccessful(PosInt.ensuringValid(count))) { s =>
        unmatched += sideBySide(s, optionsOf(s)) { (i, rows, expected) =>
          assert(rows == expected, s"after batch $i of the input")
        }.unmatched
      }
      assert(unmatched > 0)
    }

  for ((count, tags) <- Campaign.sizes(2, 20))
    test(s"with steps, the rows are the same in all: $count scenarios", tags: _*) {
      val steps = Gen.oneOf(None, Some("3 seconds"), Some("20 seconds"))
      forAll(scenarios(grouped = true), steps, minSuccessful(PosInt.ensuringValid(count))) { (s, every) =>
        var (all, allExpected) = (Seq.empty[Emitted], Seq.empty[Emitted])
        sideBySide(s, optionsOf(s).copy(releaseEvery = every.map(TimeSpan(_)))) { (_, rows, expected) =>
          all ++= rows.flatten
          allExpected ++= expected.flatten
        }
        assert(Emitted.sorted(all) == Emitted.sorted(allExpected))
      }
    }

  for ((count, tags) <- Campaign.sizes(4, 30))
    test(s"batch DataFrames give the rows of a stream that drops none: $count scenarios", tags: _*) {
      forAll(scenarios(grouped = true), minSuccessful(PosInt.ensuringValid(count)))(batched)
    }

  private def batched(s: Scenario): Assertion = {
    import spark.implicits._
    val (served, engaged) = (s.batches.flatMap(_._1), s.batches.flatMap(_._2))
    val year = 366L * 24 * 3600 * 1000
    val oracle = oracleOf(s, (year, year))
    val later = Times.seconds(4.0 * 366 * 24 * 3600)
    val expected =
      oracle.step(served, engaged) ++
        oracle.step(Seq(Served("end", later, -1)), Seq(Engaged("nobody", later, -2)))
    withConf("spark.sql.shuffle.partitions" -> s.partitions) {
      val out = Tailrace.join(served.toDF(), engaged.toDF(), Seq("k" -> "k"), optionsOf(s)).collect()
      assert(Emitted.sorted(out.map(Emitted.of)) == Emitted.sorted(expected.flatten))
    }
  }
}
