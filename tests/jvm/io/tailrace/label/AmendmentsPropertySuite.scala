package io.tailrace.label

import scala.collection.mutable

import org.scalacheck.Gen
import org.scalactic.anyvals.PosInt
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.api.Tailrace
import io.tailrace.common.TimeSpan
import io.tailrace.testkit._

/** Left rows that are amended against brute force, batch by batch. */
final class AmendmentsPropertySuite extends SparkSuite with ScalaCheckPropertyChecks with SlowSuite {
  import LabelJoinPropertySuite.{Scenario, scenarios}

  private val amendFors = Gen.oneOf(1L, 3000000L, 10000000L, 10000000L, 45000000L)

  private def optionsOf(s: Scenario, amendFor: Long): JoinOptions =
    s.options.copy(amendFor = Some(s"$amendFor microseconds"))

  private def oracleOf(s: Scenario, amendFor: Long, delays: (Long, Long)) =
    new AmendmentOracle(s.before, s.after, amendFor, s.matching, s.maxMatches, s.marksLate, delays)

  /** After each batch, its rows and those of the oracle. */
  private def sideBySide(s: Scenario, o: JoinOptions, oracle: AmendmentOracle)(
      compare: (Int, Seq[Seq[Amended]], Seq[Seq[Amended]]) => Unit
  ): Unit =
    withDirectory { directory =>
      withConf(s.settings: _*) {
        val h = new StreamHarness(spark, directory)(
          StreamHarness.join(o, s"${s.delays._1} milliseconds", s"${s.delays._2} milliseconds")
        ).start()
        var out, taken, late = 0L
        def count(): Unit = {
          out += h.total(LabelMetrics.AmendmentsEmitted)
          taken += h.total(LabelMetrics.LateRightRowsAccepted)
          late += h.total(LabelMetrics.LateRightRows)
        }
        s.batches.zipWithIndex.foreach { case ((served, engaged), i) =>
          if (s.restarts(i)) {
            count()
            h.restart()
            oracle.restart()
          }
          val rows = h.rows(served, engaged).map(batch => Amended.sorted(batch.map(Amended.of)))
          compare(i, rows, oracle.step(served, engaged))
        }
        count()
        assert((taken, late) == (oracle.taken, oracle.lateRight))
        if (o.releaseEvery.contains("batch")) assert(out == oracle.amendments)
      }
    }

  /** The same rows, with a batch more of right rows that come late to all of them. */
  private def withLateRows(s: Scenario): Scenario = {
    val again = s.batches.flatMap(_._2).zipWithIndex.map { case (r, i) => r.copy(rid = 2000 + i) }
    val (some, others) = again.splitAt(again.size / 2)
    s.copy(batches = s.batches :+ (Nil -> some) :+ (Seq(Served("b", Times.seconds(60), -3)) -> others))
  }

  private val scenarioOf = Gen.zip(scenarios(grouped = true).map(withLateRows), amendFors)
  private var amended = 0L

  for ((count, tags) <- Campaign.sizes(2, 20))
    test(s"each micro-batch gives the rows of the oracle: $count scenarios", tags: _*) {
      forAll(scenarioOf, minSuccessful(PosInt.ensuringValid(count))) { case (s, amendFor) =>
        val oracle = oracleOf(s, amendFor, s.delays)
        sideBySide(s, optionsOf(s, amendFor), oracle) { (i, rows, expected) =>
          assert(rows == expected, s"after batch $i of the input, amend_for $amendFor")
        }
        amended += oracle.amendments
      }
      // Two scenarios may have none.
      assert(amended > 0 || count < 10)
    }

  private val end = (
    Seq(Served("end", Times.seconds(100000), -1)),
    Seq(Engaged("nobody", Times.seconds(100000), -2))
  )

  for ((count, tags) <- Campaign.sizes(1, 6))
    test(
      s"with steps, the last row of a left row is that of one that waits for no others: $count scenarios",
      tags: _*
    ) {
      val steps = Gen.oneOf(None, Some("3 seconds"), Some("20 seconds"))
      forAll(scenarioOf, steps, minSuccessful(PosInt.ensuringValid(count))) { case ((s, amendFor), every) =>
        val oracle = oracleOf(s, amendFor, s.delays)
        val whole = s.copy(batches = s.batches :+ end)
        val last = mutable.Map.empty[(String, java.sql.Timestamp), Set[Seq[Int]]]
        val ids = mutable.Map.empty[(String, java.sql.Timestamp), Seq[Int]].withDefaultValue(Nil)
        sideBySide(whole, optionsOf(s, amendFor).copy(releaseEvery = every.map(TimeSpan(_))), oracle) {
          (_, rows, _) =>
            rows.foreach { batch =>
              batch.filter(r => r.mark.isEmpty && r.time.nonEmpty).foreach { r =>
                val of = (r.key.orNull, r.time.get)
                ids(of) :+= r.id.get
                last(of) = last.getOrElse(of, Set.empty) + r.labels
              }
              // All left rows of a key and a time have one group, and are amended in one batch.
              batch.filter(_.mark.contains("amended")).groupBy(r => (r.key.orNull, r.time.get)).foreach {
                case (of, rows) =>
                  assert(rows.size <= ids(of).size)
                  last(of) = rows.map(_.labels).toSet
              }
            }
        }
        val expected = oracle.lastGroups.toSeq
          .groupMap { case ((k, t, _), _) => (k, t) }(_._2)
          .map { case (of, groups) => of -> groups.toSet }
        assert(last.toMap == expected)
      }
    }

  test("batch DataFrames have a column for marks, and no row is amended") {
    import spark.implicits._
    forAll(scenarioOf, minSuccessful(PosInt.ensuringValid(2))) { case (s, amendFor) =>
      val (served, engaged) = (s.batches.flatMap(_._1).toDF(), s.batches.flatMap(_._2).toDF())
      val o = optionsOf(s, amendFor)
      def rows(options: JoinOptions) =
        Tailrace.join(served, engaged, Seq("k" -> "k"), options).collect().map(Amended.of)
      assert(Amended.sorted(rows(o)) == Amended.sorted(rows(o.copy(amendFor = None))))
      assert(Tailrace.join(served, engaged, Seq("k" -> "k"), o).columns.last == "_mark")
    }
  }
}
