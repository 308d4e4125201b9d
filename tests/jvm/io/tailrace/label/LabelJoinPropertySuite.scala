package io.tailrace.label

import org.scalacheck.Gen
import org.scalactic.anyvals.PosInt
import org.scalatest.Assertion
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.api.Tailrace
import io.tailrace.common.{TailraceConf, TimeSpan}
import io.tailrace.testkit.{Campaign, Emitted, Engaged, JoinOracle, Served, SparkSuite, StreamHarness, Times}

/** Compares the join with the oracle, batch by batch: random orders, lags, batch cuts, windows and restarts.
  */
class LabelJoinPropertySuite extends SparkSuite with ScalaCheckPropertyChecks {
  import LabelJoinPropertySuite._

  private def optionsOf(s: Scenario): JoinOptions = s.options.copy(
    how = if (s.grouped) "left" else "inner",
    lateLabels = s.lateLabels,
    lateImpressions = s.lateImpressions.filterNot(_ && (s.decided || !s.grouped)),
    releaseEvery = Option.when(s.grouped)("batch"),
    release = if (s.decided) "decided" else "closed",
    oneToOne = s.oneToOne
  )

  private def oracleOf(s: Scenario, delays: (Long, Long)): JoinOracle =
    new JoinOracle(
      s.before,
      s.after,
      s.grouped,
      s.matching,
      s.maxMatches,
      s.marksLate,
      delays,
      s.lateLabels.getOrElse(true),
      s.oneToOne,
      s.decided,
      lateLefts = s.lateImpressions.getOrElse(s.strategy == "lazy")
    )

  /** Runs the join and the oracle side by side. `compare` gets the rows of both after each batch. */
  private def sideBySide(s: Scenario, o: JoinOptions)(
      compare: (Int, Seq[Seq[Emitted]], Seq[Seq[Emitted]]) => Unit
  ): Unit =
    withDirectory { directory =>
      val ofFiles = Seq(
        TailraceConf.BackgroundLoadBytes.key -> s.localBytes.fold(TailraceConf.BackgroundLoadBytes.default)(
          _ => 0L
        ),
        TailraceConf.LocalRunBytes.key -> s.localBytes.getOrElse(TailraceConf.LocalRunBytes.default),
        TailraceConf.JoinStrategy.key -> s.strategy
      )
      withConf(s.settings ++ ofFiles: _*) {
        val (left, right) = s.delays
        val h = new StreamHarness(spark, directory)(
          StreamHarness.join(o, s"$left milliseconds", s"$right milliseconds")
        ).start()
        val oracle = oracleOf(s, s.delays)
        s.batches.zipWithIndex.foreach { case ((served, engaged), i) =>
          if (s.restarts(i)) {
            h.restart()
            oracle.restart()
          }
          compare(i, h.step(served, engaged), oracle.step(served, engaged))
        }
      }
    }

  private def streamed(s: Scenario): Assertion = {
    sideBySide(s, optionsOf(s)) { (i, rows, expected) =>
      assert(rows == expected, s"after batch $i of the input")
    }
    succeed
  }

  for ((how, grouped) <- Seq("left" -> true, "inner" -> false); (count, tags) <- Campaign.sizes(3, 20))
    test(s"each micro-batch gives the rows of the oracle: $how, $count scenarios", tags: _*) {
      forAll(scenarios(grouped), minSuccessful(PosInt.ensuringValid(count)))(streamed)
    }

  for ((count, tags) <- Campaign.sizes(3, 20))
    test(s"one_to_one gives the pairs of the oracle, where the data keeps it: $count scenarios", tags: _*) {
      forAll(scenarios(grouped = false), minSuccessful(PosInt.ensuringValid(count))) { s =>
        streamed(s.withUniqueKeys.copy(oneToOne = true))
      }
    }

  for ((count, tags) <- Campaign.sizes(3, 30))
    test(s"one_to_one gives the pairs of the oracle, where the data breaks it: $count scenarios", tags: _*) {
      forAll(scenarios(grouped = false), minSuccessful(PosInt.ensuringValid(count))) { s =>
        streamed(s.copy(oneToOne = true))
      }
    }

  private def decided(s: Scenario): Scenario = s.copy(matching = "first", before = 0, decided = true)

  for ((count, tags) <- Campaign.sizes(3, 30))
    test(s"decided rows come out in the batches of the oracle: $count scenarios", tags: _*) {
      forAll(scenarios(grouped = true), minSuccessful(PosInt.ensuringValid(count)))(s => streamed(decided(s)))
    }

  for ((count, tags) <- Campaign.sizes(2, 20))
    test(s"rows that leave in steps are the rows that leave one by one: $count scenarios", tags: _*) {
      val steps = Gen.oneOf(None, Some("3 seconds"), Some("20 seconds"))
      forAll(scenarios(grouped = true), steps, minSuccessful(PosInt.ensuringValid(count)))(inSteps)
    }

  private def inSteps(s: Scenario, every: Option[String]): Assertion = {
    val ends = Times.seconds(100000)
    val end = (Seq(Served("end", ends, -1)), Seq(Engaged("nobody", ends, -2)))
    var (all, allExpected) = (Seq.empty[Emitted], Seq.empty[Emitted])
    sideBySide(s.copy(batches = s.batches :+ end), optionsOf(s).copy(releaseEvery = every.map(TimeSpan(_)))) {
      (_, rows, expected) =>
        all ++= rows.flatten
        allExpected ++= expected.flatten
    }
    assert(Emitted.sorted(all) == Emitted.sorted(allExpected))
  }

  for ((count, tags) <- Campaign.sizes(6, 40))
    test(s"batch DataFrames give the rows of a stream that drops none: $count scenarios", tags: _*) {
      forAll(scenarios(grouped = true), Gen.oneOf(true, false), minSuccessful(PosInt.ensuringValid(count)))(
        batched _
      )
    }

  for ((count, tags) <- Campaign.sizes(6, 40))
    test(s"batch DataFrames pair the rows that a stream pairs in a batch: $count scenarios", tags: _*) {
      forAll(scenarios(grouped = false), minSuccessful(PosInt.ensuringValid(count))) { s =>
        batched(s.copy(oneToOne = true), grouped = false)
      }
    }

  private def batched(scenario: Scenario, grouped: Boolean): Assertion = {
    import spark.implicits._
    // An inner join has no policy.
    val s = if (grouped) scenario else scenario.copy(grouped = false, matching = "all", maxMatches = None)
    val (served, engaged) = (s.batches.flatMap(_._1), s.batches.flatMap(_._2))
    val year = 366L * 24 * 3600 * 1000
    val oracle = oracleOf(s, (year, year))
    val ends = Times.seconds(4.0 * 366 * 24 * 3600)
    val expected =
      oracle.step(served, engaged) ++
        oracle.step(Seq(Served("end", ends, -1)), Seq(Engaged("nobody", ends, -2)))
    withConf("spark.sql.shuffle.partitions" -> s.partitions) {
      val out = Tailrace.join(served.toDF(), engaged.toDF(), Seq("k" -> "k"), optionsOf(s)).collect()
      assert(Emitted.sorted(out.map(Emitted.of)) == Emitted.sorted(expected.flatten))
    }
  }
}

object LabelJoinPropertySuite {

  /** @param before,after window, microseconds
    * @param delays        of the watermarks, milliseconds
    * @param restarts      before which batches of the input the query is stopped and started
    */
  final case class Scenario(
      grouped: Boolean,
      before: Long,
      after: Long,
      delays: (Long, Long),
      matching: String,
      maxMatches: Option[Int],
      marksLate: Boolean,
      lateLabels: Option[Boolean],
      lateImpressions: Option[Boolean],
      partitions: Int,
      bufferBytes: Int,
      compactionRuns: Int,
      localBytes: Option[Long],
      strategy: String,
      formatVersion: Int,
      batches: Seq[(Seq[Served], Seq[Engaged])],
      restarts: Set[Int],
      oneToOne: Boolean = false,
      decided: Boolean = false
  ) {

    /** Of the session. */
    def settings: Seq[(String, Any)] = Seq(
      "spark.sql.shuffle.partitions" -> partitions,
      TailraceConf.BatchBufferBytes.key -> bufferBytes,
      TailraceConf.CompactionRuns.key -> compactionRuns,
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> formatVersion
    )

    /** Of a join with groups that come out in each batch. */
    def options: JoinOptions = JoinOptions(
      leftTime = "t",
      rightTime = "rt",
      after = s"$after microseconds",
      before = s"$before microseconds",
      `match` = matching,
      maxMatches = maxMatches,
      onLate = if (marksLate) "mark" else "drop",
      releaseEvery = Some("batch")
    )

    /** With unique keys: each of them has at most one left and one right row. */
    def withUniqueKeys: Scenario = {
      val (served, engaged) = (Iterator.from(0), Iterator.from(0))
      copy(batches = batches.map { case (left, right) =>
        left.map(l => l.copy(k = s"key ${served.next()}")) -> right.map(r =>
          r.copy(k = s"key ${engaged.next()}")
        )
      })
    }
  }

  // "" is the least key: it sorts beside null keys.
  private val key = Gen.frequency(
    4 -> Gen.oneOf("a", "b", "a longer key than a prefix", "a longer key than a prefix!"),
    1 -> Gen.const(""),
    1 -> Gen.const(null: String)
  )

  /** Few different times, so that rows are at the ends of windows, and some times that differ by a
    * microsecond.
    */
  private def time(around: Int): Gen[java.sql.Timestamp] = for {
    second <- Gen.choose(around - 12, around + 12)
    micro <- Gen.frequency(6 -> 0L, 1 -> 1L, 1 -> -1L, 1 -> 500L)
    isNull <- Gen.frequency(40 -> false, 1 -> true)
  } yield if (isNull) null else Times.micros(second * 1000000L + micro)

  private def rows[T](around: Int)(make: (String, java.sql.Timestamp, Int) => T): Gen[Seq[T]] = for {
    n <- Gen.frequency(1 -> Gen.const(0), 6 -> Gen.choose(1, 12))
    some <- Gen.listOfN(n, Gen.zip(key, time(around), Gen.choose(0, 1000)))
    repeated <- Gen.frequency(4 -> 0, 1 -> 1)
  } yield (some ++ some.take(repeated)).map(make.tupled)

  private val batch: Int => Gen[(Seq[Served], Seq[Engaged])] = i => {
    val around = 10 * i
    for {
      served <- rows(around)(Served.apply)
      lag <- Gen.oneOf(0, 0, 15)
      engaged <- rows(around - lag)(Engaged.apply)
    } yield
      if (served.isEmpty && engaged.isEmpty) (Seq(Served("a", Times.seconds(around.toDouble), i)), engaged)
      else (served, engaged)
  }

  private val length = Gen.oneOf(0L, 1L, 4000000L, 9999999L, 10000000L, 45000000L)

  def scenarios(grouped: Boolean): Gen[Scenario] = for {
    before <- length
    after <- length
    delays <- Gen.zip(Gen.oneOf(0L, 3000L, 20000L), Gen.oneOf(0L, 3000L, 20000L))
    matching <- if (grouped) Gen.oneOf("all", "all", "first", "last", "nearest") else Gen.const("all")
    maxMatches <- if (grouped) Gen.oneOf(None, None, Some(1), Some(3)) else Gen.const(None)
    marksLate <- Gen.oneOf(true, false)
    lateLabels <- Gen.oneOf(None, None, Some(true), Some(false))
    lateImpressions <- Gen.oneOf(None, None, Some(true), Some(false))
    partitions <- Gen.oneOf(1, 2, 2, 7)
    bufferBytes <- Gen.oneOf(1, 1000, 1 << 20)
    compactionRuns <- Gen.oneOf(2, 3, 32)
    localBytes <- Gen.oneOf(None, None, Some(0L), Some(4000L))
    strategy <- Gen.oneOf("lazy", "eager")
    formatVersion <- Gen.oneOf(1, 1, 2)
    count <- Gen.choose(3, 5)
    batches <- Gen.sequence[Seq[(Seq[Served], Seq[Engaged])], (Seq[Served], Seq[Engaged])](
      (0 until count).map(batch)
    )
    restarts <- Gen.someOf(1 until count)
  } yield Scenario(
    grouped,
    before,
    after,
    delays,
    matching,
    maxMatches,
    marksLate,
    lateLabels,
    lateImpressions,
    partitions,
    bufferBytes,
    compactionRuns,
    localBytes,
    strategy,
    formatVersion,
    batches,
    restarts.take(1).toSet
  )
}
