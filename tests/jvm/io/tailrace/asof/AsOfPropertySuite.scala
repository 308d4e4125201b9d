package io.tailrace.asof

import org.scalacheck.Gen
import org.scalactic.anyvals.PosInt
import org.scalatest.Assertion
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceConf
import io.tailrace.label.LabelJoinPropertySuite.{Scenario, scenarios}
import io.tailrace.testkit._

/** Compares the as-of join with the oracle, batch by batch: random orders, lags, batch cuts, delays, ages and
  * restarts, on the rows of the label join's scenarios.
  */
class AsOfPropertySuite extends SparkSuite with ScalaCheckPropertyChecks {
  private val ages = Gen.oneOf(None, None, Some(0L), Some(5000000L), Some(30000000L))

  /** The short form of campaigns has no more of them: the label join's cover the frame. */
  private val sizes = Campaign.sizes(4, if (Campaign.isLong) 200 else 4)

  private def optionsOf(s: Scenario, maxAge: Option[Long]): AsOfOptions = AsOfOptions(
    "t",
    "rt",
    maxAge = maxAge.map(age => s"$age microseconds"),
    delay = s"${s.after} microseconds"
  )

  private def streamed(s: Scenario, maxAge: Option[Long]): Assertion = withDirectory { directory =>
    withConf(
      "spark.sql.shuffle.partitions" -> s.partitions,
      TailraceConf.BatchBufferBytes.key -> s.bufferBytes,
      TailraceConf.CompactionRuns.key -> s.compactionRuns,
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> s.formatVersion
    ) {
      val (left, right) = s.delays
      val h = new StreamHarness(spark, directory)((served, engaged) =>
        Tailrace.asOf(
          served.withWatermark("t", s"$left milliseconds"),
          engaged.withWatermark("rt", s"$right milliseconds"),
          Seq("k" -> "k"),
          optionsOf(s, maxAge)
        )
      ).start()
      val oracle = new AsOfOracle(s.after, maxAge, s.delays)
      val end = Times.seconds(100000)
      val ends = (Seq(Served("end", end, -1)), Seq(Engaged("nobody", end, -2)))
      (s.batches :+ ends).zipWithIndex.foreach { case ((served, engaged), i) =>
        if (s.restarts(i)) {
          h.restart()
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
      forAll(scenarios(grouped = true), ages, minSuccessful(PosInt.ensuringValid(count)))(streamed)
    }

  for ((count, tags) <- sizes)
    test(s"batch DataFrames give the rows of a stream that drops none: $count scenarios", tags: _*) {
      forAll(scenarios(grouped = true), ages, minSuccessful(PosInt.ensuringValid(count)))(batched)
    }

  private def batched(s: Scenario, maxAge: Option[Long]): Assertion = {
    import spark.implicits._
    val (served, engaged) = (s.batches.flatMap(_._1), s.batches.flatMap(_._2))
    val year = 366L * 24 * 3600 * 1000
    val oracle = new AsOfOracle(s.after, maxAge, (year, year))
    val ends = Times.seconds(4.0 * 366 * 24 * 3600)
    val expected = oracle.step(served, engaged) ++
      oracle.step(Seq(Served("end", ends, -1)), Seq(Engaged("nobody", ends, -2)))
    withConf("spark.sql.shuffle.partitions" -> s.partitions) {
      val out = Tailrace.asOf(served.toDF(), engaged.toDF(), Seq("k" -> "k"), optionsOf(s, maxAge)).collect()
      assert(Looked.sorted(out.map(Looked.of)) == Looked.sorted(expected.flatten))
    }
  }
}
