package io.tailrace.asof

import org.apache.spark.sql.DataFrame
import org.scalacheck.Gen
import org.scalactic.anyvals.PosInt
import org.scalatest.Assertion
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceConf
import io.tailrace.label.LabelJoinPropertySuite.{Scenario, scenarios}
import io.tailrace.testkit._

/** Compares the as-of join with the oracle, batch by batch: random orders, lags, batch cuts, delays, ages, initial rows
  * and restarts, on the rows of the label join's scenarios.
  */
class AsOfPropertySuite extends SparkSuite with ScalaCheckPropertyChecks {
  private val ages = Gen.oneOf(None, None, Some(0L), Some(5000000L), Some(30000000L))

  /** The short form of campaigns has no more of them: the label join's cover the frame. */
  private val sizes = Campaign.sizes(4, if (Campaign.isLong) 200 else 4)

  /** Some of the right rows as initial ones, with other ids, at the same times or earlier. */
  private val cases: Gen[(Scenario, Seq[Engaged])] = for {
    s <- scenarios(grouped = true)
    some <- Gen.someOf(s.batches.flatMap(_._2))
    earlier <- Gen.oneOf(0L, 1L, 9000000L, 60000000L)
  } yield s -> some.toSeq.map { right =>
    val time = Option(right.rt).map(rt => Times.micros(Times.microsOf(rt) - earlier)).orNull
    right.copy(rt = time, rid = right.rid + 5000)
  }

  private def optionsOf(s: Scenario, maxAge: Option[Long]): AsOfOptions = AsOfOptions(
    "t",
    "rt",
    maxAge = maxAge.map(age => s"$age microseconds"),
    delay = s"${s.after} microseconds"
  )

  private def table(initial: Seq[Engaged]): Option[DataFrame] = {
    import spark.implicits._
    Option.when(initial.nonEmpty)(initial.toDF())
  }

  private def streamed(of: (Scenario, Seq[Engaged]), maxAge: Option[Long]): Assertion = withDirectory {
    directory =>
      val (s, initial) = of
      withConf(
        "spark.sql.shuffle.partitions" -> s.partitions,
        TailraceConf.BatchBufferBytes.key -> s.bufferBytes,
        TailraceConf.CompactionRuns.key -> s.compactionRuns,
        "spark.sql.streaming.stateStore.checkpointFormatVersion" -> s.formatVersion
      ) {
        val (left, right) = s.delays
        def query(initial: Seq[Engaged])(served: DataFrame, engaged: DataFrame) = Tailrace.asOf(
          served.withWatermark("t", s"$left milliseconds"),
          engaged.withWatermark("rt", s"$right milliseconds"),
          Seq("k" -> "k"),
          optionsOf(s, maxAge),
          table(initial)
        )
        val h = new StreamHarness(spark, directory)(query(initial)).start()
        val oracle = new AsOfOracle(s.after, maxAge, s.delays, initial)
        val end = Times.seconds(100000)
        val ends = (Seq(Served("end", end, -1)), Seq(Engaged("nobody", end, -2)))
        (s.batches :+ ends).zipWithIndex.foreach { case ((served, engaged), i) =>
          if (s.restarts(i)) {
            h.stop()
            // The checkpoint has those of the first start: it doesn't matter which ones are given now.
            h.start(query(initial.take(i % 3).map(_.copy(rid = -7))))
            oracle.restart()
          }
          val rows = h.rows(served, engaged).map(batch => Looked.sorted(batch.map(Looked.of)))
          assert(rows == oracle.step(served, engaged), s"after batch $i of the input")
        }
        assert(h.changed.isEmpty)
      }
  }

  for ((count, tags) <- sizes)
    test(s"each micro-batch gives the rows of the oracle: $count scenarios", tags: _*) {
      forAll(cases, ages, minSuccessful(PosInt.ensuringValid(count)))(streamed)
    }

  for ((count, tags) <- sizes)
    test(s"batch DataFrames give the rows of a stream that drops none: $count scenarios", tags: _*) {
      forAll(cases, ages, minSuccessful(PosInt.ensuringValid(count)))(batched)
    }

  private def batched(of: (Scenario, Seq[Engaged]), maxAge: Option[Long]): Assertion = {
    import spark.implicits._
    val (s, initial) = of
    val (served, engaged) = (s.batches.flatMap(_._1), s.batches.flatMap(_._2))
    val year = 366L * 24 * 3600 * 1000
    val oracle = new AsOfOracle(s.after, maxAge, (year, year), initial)
    val ends = Times.seconds(4.0 * 366 * 24 * 3600)
    val expected = oracle.step(served, engaged) ++
      oracle.step(Seq(Served("end", ends, -1)), Seq(Engaged("nobody", ends, -2)))
    withConf("spark.sql.shuffle.partitions" -> s.partitions) {
      val out =
        Tailrace
          .asOf(served.toDF(), engaged.toDF(), Seq("k" -> "k"), optionsOf(s, maxAge), table(initial))
          .collect()
      assert(Looked.sorted(out.map(Looked.of)) == Looked.sorted(expected.flatten))
    }
  }
}
