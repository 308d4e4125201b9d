package io.tailrace.label

import org.scalacheck.Gen
import org.scalactic.anyvals.PosInt
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.api.Tailrace
import io.tailrace.common.{Durations, TimeSpan}
import io.tailrace.testkit._

/** Versions of left rows against brute force, batch by batch. */
final class HorizonsPropertySuite extends SparkSuite with ScalaCheckPropertyChecks with SlowSuite {
  import LabelJoinPropertySuite.{Scenario, scenarios}

  private val parts = Gen.someOf(0L, 1L, 2L, 3L, 5L).map(_.toSeq.sorted)
  private val emits = Gen.oneOf("all", "changes", "changes", "late_positives", "defer")

  /** Horizons at some sixths of the window. */
  private def endsOf(s: Scenario, sixths: Seq[Long], emit: String): Seq[Long] = {
    val named = (sixths.map(s.after * _ / 6) :+ s.after).distinct
    if (emit == "defer") Seq(named.head, named.last).distinct else named
  }

  private def optionsOf(s: Scenario, ends: Seq[Long], emit: String): JoinOptions = s.options.copy(
    lateLabels = s.lateLabels,
    lateImpressions = s.lateImpressions,
    horizons = ends.map(end => s"$end microseconds"),
    emit = emit
  )

  private def oracleOf(s: Scenario, ends: Seq[Long], emit: String, delays: (Long, Long)) = new HorizonOracle(
    s.before,
    ends,
    ends.map(end => Durations.words(end)),
    emit,
    s.matching,
    s.maxMatches,
    s.marksLate,
    s.lateLabels.getOrElse(true),
    s.lateImpressions.getOrElse(true),
    delays
  )

  private def sideBySide(s: Scenario, o: JoinOptions, oracle: HorizonOracle)(
      compare: (Int, Seq[Seq[Version]], Seq[Seq[Version]]) => Unit
  ): Unit =
    withDirectory { directory =>
      withConf(s.settings: _*) {
        val h = new StreamHarness(spark, directory)(
          StreamHarness.join(o, s"${s.delays._1} milliseconds", s"${s.delays._2} milliseconds")
        ).start()
        s.batches.zipWithIndex.foreach { case ((served, engaged), i) =>
          if (s.restarts(i)) {
            h.restart()
            oracle.restart()
          }
          val rows = h.rows(served, engaged).map(batch => Version.sorted(batch.map(Version.of)))
          compare(i, rows, oracle.step(served, engaged))
        }
      }
    }

  private val end = (
    Seq(Served("end", Times.seconds(100000), -1)),
    Seq(Engaged("nobody", Times.seconds(100000), -2))
  )

  for ((count, tags) <- Campaign.sizes(2, 6))
    test(s"each micro-batch gives the versions of the oracle: $count scenarios", tags: _*) {
      forAll(scenarios(grouped = true), parts, emits, minSuccessful(PosInt.ensuringValid(count))) {
        (s, sixths, emit) =>
          val ends = endsOf(s, sixths, emit)
          val whole = s.copy(batches = s.batches :+ end)
          sideBySide(whole, optionsOf(s, ends, emit), oracleOf(s, ends, emit, s.delays)) {
            (i, rows, expected) =>
              assert(rows == expected, s"after batch $i of the input, horizons $ends")
          }
      }
    }

  for ((count, tags) <- Campaign.sizes(1, 3))
    test(s"versions that come out in steps are those that come out one by one: $count scenarios", tags: _*) {
      val steps = Gen.oneOf(None, Some("3 seconds"), Some("20 seconds"))
      forAll(scenarios(grouped = true), parts, emits, steps, minSuccessful(PosInt.ensuringValid(count))) {
        (s, sixths, emit, every) =>
          val ends = endsOf(s, sixths, emit)
          val whole = s.copy(batches = s.batches :+ end)
          var (all, allExpected) = (Seq.empty[Version], Seq.empty[Version])
          sideBySide(
            whole,
            optionsOf(s, ends, emit).copy(releaseEvery = every.map(TimeSpan(_))),
            oracleOf(s, ends, emit, s.delays)
          ) { (_, rows, expected) =>
            all ++= rows.flatten.filter(_.id != -1)
            allExpected ++= expected.flatten.filter(_.id != -1)
          }
          assert(Version.sorted(all) == Version.sorted(allExpected))
      }
    }

  for ((count, tags) <- Campaign.sizes(3, 10))
    test(s"batch DataFrames give the versions of a stream that drops none: $count scenarios", tags: _*) {
      import spark.implicits._
      forAll(scenarios(grouped = true), parts, emits, minSuccessful(PosInt.ensuringValid(count))) {
        (s, sixths, emit) =>
          val ends = endsOf(s, sixths, emit)
          val (served, engaged) = (s.batches.flatMap(_._1), s.batches.flatMap(_._2))
          val year = 366L * 24 * 3600 * 1000
          val oracle = oracleOf(s, ends, emit, (year, year))
          val last = Times.seconds(4.0 * 366 * 24 * 3600)
          val expected =
            oracle.step(served, engaged) ++
              oracle.step(Seq(Served("end", last, -1)), Seq(Engaged("nobody", last, -2)))
          withConf("spark.sql.shuffle.partitions" -> s.partitions) {
            val out =
              Tailrace
                .join(served.toDF(), engaged.toDF(), Seq("k" -> "k"), optionsOf(s, ends, emit))
                .collect()
            assert(Version.sorted(out.map(Version.of)) == Version.sorted(expected.flatten))
          }
      }
    }
}
