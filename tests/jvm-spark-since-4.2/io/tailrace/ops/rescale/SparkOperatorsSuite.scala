package io.tailrace.ops.rescale

import java.io.File
import java.nio.file.Files

import scala.util.Random

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceStateException
import io.tailrace.plan.MixedStateSuite
import io.tailrace.plan.MixedStateSuite.{Provider, RocksDB}
import io.tailrace.testkit._

/** Queries with state of Spark's own operators beside a join's. With another number of partitions they go on to the rows
  * of a query that had that number from the start.
  */
final class SparkOperatorsSuite extends RescaleSuite {
  private type Query = (DataFrame, DataFrame) => DataFrame
  private val Format = "spark.sql.streaming.stateStore.checkpointFormatVersion"
  private val Changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
  private val batches = 3
  private val rescaledAfter = 2

  private def delayed(rows: DataFrame, time: String): DataFrame = rows.withWatermark(time, "40 seconds")

  private def joined(l: DataFrame, r: DataFrame): DataFrame =
    Tailrace.join(l, r, Seq("k" -> "k"), NeverLate.options())

  private def join(l: DataFrame, r: DataFrame): DataFrame = joined(delayed(l, "t"), delayed(r, "rt"))

  private def counted(joined: DataFrame): DataFrame = joined
    .groupBy(col("k"), window(col("t"), "70 seconds"))
    .agg(count("*").as("n"), sum(size(col("labels"))).as("labels"))
    .select(col("k"), col("window.end").as("end"), col("n"), col("labels"))

  /** A deduplication, the join, an aggregation. */
  private val three: Query =
    (l, r) => counted(joined(delayed(l, "t").dropDuplicates("k", "t", "id"), delayed(r, "rt")))

  private val withStateOfKeys: Query = (l, r) => {
    val once = delayed(l, "t").dropDuplicatesWithinWatermark("k", "t", "id")
    MixedStateSuite.totals(counted(joined(once, delayed(r, "rt"))))
  }

  private val withJoinOfSpark: Query = (l, r) => {
    val again = delayed(r, "rt").select(col("k").as("again"), col("rt"), col("rid"))
    join(l, r).join(again, expr("k = again and rt between t and t + interval 20 seconds"), "left_outer")
  }

  /** Each left row twice, and once more in the next batch, if it isn't late there. */
  private def batch(i: Int): NeverLate.Batch = {
    def rows(of: Int) = {
      val random = new Random(of.toLong)
      def key() = s"k${random.nextInt(40)}"
      def time(lag: Int) = Times.seconds(100.0 * of + random.nextInt(100) - lag)
      val served = Seq.tabulate(60)(n => Served(key(), time(0), of * 100 + n))
      (served, Seq.tabulate(60)(n => Engaged(key(), time(15), of * 100 + n)))
    }
    val ((served, engaged), before) = (rows(i), rows(i - 1)._1)
    (served ++ served ++ before.filter(i > 0 && !_.t.before(Times.seconds(100.0 * i - 30))), engaged)
  }

  private def partitions(number: Int) = "spark.sql.shuffle.partitions" -> number

  private final class Running(query: Query, val root: File) {
    val harness = new StreamHarness(spark, new File(root, "checkpoint"))(query)

    def begin(): Unit = {
      harness.start()
      (0 until rescaledAfter).foreach(add)
      harness.stop()
    }

    private def add(i: Int): Unit = harness.rows(batch(i)._1, batch(i)._2): Unit

    /** Goes on from a checkpoint that has seen the rows of before. @return the rows since */
    def goOnFromCopy(): Seq[Row] = {
      (0 until rescaledAfter).map(batch).foreach { case (served, engaged) =>
        harness.preload(served, engaged)
      }
      goOn()
    }

    /** @return all rows of this harness */
    def goOn(): Seq[Row] = {
      harness.start()
      (rescaledAfter until batches).foreach(add)
      harness.rows(NeverLate.end._1, NeverLate.end._2): Unit
      harness.stop()
      harness.allRows.sortBy(_.toString)
    }
  }

  private def withRun[T](query: Query)(body: Running => T): T = {
    val root = Files.createTempDirectory("rescaled").toFile
    try body(new Running(query, root))
    finally TempDirectory.delete(root.toPath)
  }

  /** Of a query that has this number from the start. */
  private def plain(query: Query, number: Int): Seq[Row] = withConf(Provider -> RocksDB, partitions(number)) {
    withRun(query) { run =>
      run.begin()
      run.goOn()
    }
  }

  private def state(root: File) = new File(checkpoint(root), "state")

  private def operators(root: File): Seq[String] = state(root).list.toSeq.sorted

  private def directories(root: File): Seq[Seq[Int]] =
    operators(root).map(operator => new File(state(root), operator).list.toSeq.flatMap(_.toIntOption).sorted)

  /** Rows of each operator that Spark's reader shows as a whole. */
  private def readBySpark(root: File): Seq[Long] = {
    val metadata = spark.read.format("state-metadata").load(checkpoint(root)).collect().toSeq
    val whole = metadata.filter(row =>
      row.getAs[String]("stateStoreName") == "default" && row.getAs[String](
        "operatorName"
      ) != "transformWithStateExec"
    )
    whole.map(_.getAs[Long]("operatorId")).sorted.map { operator =>
      spark.read.format("statestore").option("operatorId", operator).load(checkpoint(root)).count()
    }
  }

  /** What isn't only a number of a command. */
  private def leftBehind(root: File): Seq[String] = {
    val all = Option(new File(checkpoint(root), "tailrace-rescale").list).toSeq.flatten
    all.filterNot(_.forall(c => c.isDigit || ".crc".contains(c)))
  }

  private val queries = Seq(
    "dropDuplicates, a join, an aggregation" -> three,
    "dropDuplicatesWithinWatermark, a join, an aggregation, transformWithState" -> withStateOfKeys,
    "a join, a join of Spark's" -> withJoinOfSpark
  )

  // A long form runs all of them.
  for {
    (name, query) <- if (Campaign.isLong) queries else queries.take(1)
    format <- if (Campaign.isLong) Seq(1, 2) else Seq(1)
    changelog <- if (Campaign.isLong) Seq(true, false) else Seq(true)
  } test(s"$name; format $format, changelog $changelog", Campaign) {
    val numbers = if (Campaign.isLong) Seq(1, 5, 3) else Seq(3)
    val expected = plain(query, numbers.last)
    assert(expected.size > 50)
    withConf(Provider -> RocksDB, Format -> format, Changelog -> changelog, partitions(2)) {
      withRun(query) { run =>
        run.begin()
        val read = readBySpark(run.root)
        // The stores of a join of Spark have other names.
        assert(read.nonEmpty && read.min > 0)
        numbers.foreach { number =>
          assert(rescale(run.root, number).after == number)
          assert(readBySpark(run.root) == read, s"of $number partitions")
        }
        assert(leftBehind(run.root).isEmpty)
        assert(run.goOn() == expected)
        assert(directories(run.root).distinct == Seq(0 until numbers.last))
      }
    }
  }

  test("a query that runs elsewhere, unseen, ends, and loses nothing", Campaign) {
    val expected = plain(three, 3)
    withConf(Provider -> RocksDB, Changelog -> true, partitions(2)) {
      withRun(three) { run =>
        run.harness.start()
        (0 until rescaledAfter).foreach(i => run.harness.rows(batch(i)._1, batch(i)._2): Unit)
        // By another path the session doesn't see that its query is the same.
        val elsewhere = new File(run.root, "elsewhere")
        Files.createSymbolicLink(elsewhere.toPath, new File(checkpoint(run.root)).toPath)
        assert(Tailrace.rescale(spark, elsewhere.getPath, 3).after == 3)
        run.harness.add(batch(rescaledAfter)._1, batch(rescaledAfter)._2)
        val e = intercept[StreamingQueryException](run.harness.streaming.processAllAvailable())
        assert(e.getMessage.contains("[CONCURRENT_STREAM_LOG_UPDATE]"))
        run.harness.start()
        run.harness.rows(NeverLate.end._1, NeverLate.end._2): Unit
        run.harness.stop()
        assert(run.harness.allRows.sortBy(_.toString) == expected)
      }
    }
  }

  /** Of a query of 2 partitions, and the rows that it gives from there on. */
  private final class Begun(format: Int) {
    private val settings =
      Seq(Provider -> RocksDB, Format -> format, Changelog -> true, partitions(2)): Seq[(String, Any)]
    private val from = Files.createTempDirectory("begun")

    def delete(): Unit = TempDirectory.delete(from)

    private def copied[T](body: Running => T): T = withConf(settings: _*) {
      withRun(three) { run =>
        Checkpoint.copy(from.toFile, run.root)
        body(run)
      }
    }

    withConf(settings: _*)(new Running(three, from.toFile).begin())
    private val expected = copied(_.goOnFromCopy())

    /** Rescales to 3 in a process that dies, and goes on. @return the steps that there were */
    def dies(at: Int)(after: File => Unit): Int = copied { run =>
      val death = new DeadProcess(at)
      withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName) {
        try WatchedFiles.watchedBy(death)(rescale(run.root, 3)): Unit
        catch { case _: Exception => assert(death.steps >= at) }
      }
      if (at < Int.MaxValue) {
        after(run.root)
        assert(run.goOnFromCopy() == expected, s"died at step $at")
        assert(leftBehind(run.root).isEmpty, s"died at step $at")
        val numbers = directories(run.root).distinct
        assert(numbers == Seq(Seq(0, 1)) || numbers == Seq(Seq(0, 1, 2)), s"died at step $at")
      }
      death.steps
    }
  }

  test("a rescaling that dies", Campaign) {
    val seeds = Campaign.seeds(short = 1)
    val formats = Seq(2, 1).take(seeds.size).map(new Begun(_))
    try {
      val steps = formats.map(_.dies(Int.MaxValue)(_ => ()))
      assert(steps.min > 30)
      val random = new Random(steps.sum.toLong)
      seeds.foreach { n =>
        val all = steps(n % 2)
        // Behind the turn, which is near the end, and at any step before.
        val at = if (n % 4 < 2) all - random.nextInt(40) else 1 + random.nextInt(all)
        formats(n % 2).dies(at) { root =>
          // Some are repeated before the query goes on.
          if (n % 3 == 2) rescale(root, 3): Unit
        }: Unit
      }
    } finally formats.foreach(_.delete())
  }

  test("what Spark can't repartition, and a batch that was cut off") {
    def refused(run: Running): TailraceStateException = {
      val e = intercept[TailraceStateException](rescale(run.root, 3))
      assert(!new File(checkpoint(run.root), "tailrace-rescale").exists())
      e
    }
    withConf(Provider -> RocksDB, partitions(2)) {
      withRun((l, r) => join(l, r).limit(1000)) { run =>
        run.begin()
        val e = refused(run)
        assert(e.getCondition == "TAILRACE_STATE_RESCALE_UNSUPPORTED")
        val why = "STATE_REPARTITION_INVALID_CHECKPOINT.UNSUPPORTED_STATEFUL_OPERATOR"
        assert(e.getMessageParameters.get("operators") == s"globalLimit ($why)")
      }
      withRun((l, r) => joined(delayed(l, "t").dropDuplicates("k", "t", "id"), delayed(r, "rt"))) { run =>
        run.begin()
        Files.delete(Checkpoint.newestFirst(new File(checkpoint(run.root), "commits")).head.toPath)
        assert(refused(run).getCondition == "TAILRACE_STATE_RESCALE_OPEN_BATCH")
      }
    }
  }
}
