package io.tailrace.ops.inspect

import java.io.File

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.sync.SyncOptions
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Campaign, Engaged, Served, SparkSuite, StreamHarness}

/** What has changed between two versions, against the rows of both. */
final class StateChangesSuite extends SparkSuite {
  private val base = options("10 seconds").copy(before = "5 seconds")

  private def read(d: File, options: (String, Any)*): DataFrame =
    spark.read
      .format("tailrace-state")
      .options(options.map { case (name, value) => name -> value.toString }.toMap)
      .load(d.getPath)

  private def texts(frame: DataFrame): Seq[String] = frame.collect().map(_.toString).toSeq.sorted

  /** @return a check of two versions: how many rows have come and gone */
  private def checks(d: File): (Long, Long, String) => (Int, Int) = {
    val versions = mutable.Map.empty[(Long, String), Seq[String]]
    def rows(version: Long, condition: String): Seq[String] =
      versions.getOrElseUpdate((version, condition), texts(read(d, "version" -> version).where(condition)))
    (from, to, condition) => {
      val (before, after) = (rows(from, condition), rows(to, condition))
      val found = read(d, "from_version" -> from, "version" -> to).where(condition)
      val changes = found.select("change", found.columns.tail.toSeq: _*).collect().toSeq
      def of(change: String): Seq[String] = changes
        .filter(_.getString(0) == change)
        .map { row =>
          row.toSeq.tail.mkString("[", ",", "]")
        }
        .sorted
      val (added, gone) = (after.diff(before), before.diff(after))
      assert(of("added") == added, s"$from to $to, $condition")
      assert(of("gone") == gone, s"$from to $to, $condition")
      (added.size, gone.size)
    }
  }

  /** Versions over several compactions, whose watermark moves. */
  private def run(query: (DataFrame, DataFrame) => DataFrame, more: (String, Any)*): Unit =
    withConf(
      more ++ Seq(
        "spark.sql.streaming.minBatchesToRetain" -> 100,
        "spark.tailrace.state.compactionRuns" -> 3
      ): _*
    ) {
      withDirectory { d =>
        val random = new Random(3)
        def key() = if (random.nextInt(8) == 0) null else s"key ${random.nextInt(4)}"
        val h = new StreamHarness(spark, d)(query).start()
        (1 to 7).foreach { step =>
          def time() = seconds(step * 3 - 12 + random.nextDouble() * 4)
          h.rows(
            Seq.fill(6)(Served(key(), time(), random.nextInt())),
            Seq.fill(6)(Engaged(key(), time(), random.nextInt()))
          )
        }
        val last = h.batchCount
        h.stop()
        val pairs = Seq(1L -> last, 2L -> last, 4L -> 5L, 5L -> 9L, (last - 1) -> last, last -> last)
        val check = checks(d)
        val found = pairs.map { case (from, to) => check(from, to, "true") }
        assert(found.exists(_._1 > 0) && found.exists(_._2 > 0))
        if (more.isEmpty)
          Seq("side = 'left'", "key.k = 'key 1'", "time > TIMESTAMP '2026-03-01 12:00:03Z'")
            .foreach(check(2, last, _))
      }
    }

  private val labels = join(base.copy(releaseEvery = Some("batch")), "4 seconds", "4 seconds") _

  private def synced(oneToOne: Boolean)(left: DataFrame, right: DataFrame): DataFrame = Tailrace.syncJoin(
    left.withColumn("p", expr("pmod(id, 2)")),
    right.withColumn("p", expr("pmod(rid, 2)")),
    Seq("k" -> "k"),
    SyncOptions("t", "rt", "10 seconds", "3 seconds", Seq("p"), Seq("p"), oneToOne = oneToOne)
  )

  test("rows that came and went, over compactions and expiry", Campaign)(run(labels))

  test("the same: eager", Campaign)(run(labels, "spark.tailrace.join.strategy" -> "eager"))

  test("the same: pairs, in Spark's checkpoint format 2", Campaign) {
    val pairs = join(base.copy(how = "inner"), "4 seconds", "4 seconds") _
    run(pairs, "spark.sql.streaming.stateStore.checkpointFormatVersion" -> 2)
  }

  test("the same: a synced join, whose right rows leave one by one", Campaign)(
    run(synced(oneToOne = false))
  )

  test("the same: and whose left rows do, too", Campaign)(run(synced(oneToOne = true)))

  test("a row that came, one that went; versions that can't be compared are refused by name") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(join(base.copy(releaseEvery = Some("batch")))).start()
      h.step(Seq(Served("a", seconds(1), 1)), Nil)
      val first = h.batchCount
      h.step(Seq(Served("b", seconds(30), 2)), Seq(Engaged("b", seconds(30), 2)))
      assert(
        read(d, "from_version" -> first)
          .where("side = 'left'")
          .select("change", "left.id")
          .orderBy("id")
          .collect()
          .toSeq ==
          Seq(Row("gone", 1), Row("added", 2))
      )
      h.step(Seq(Served("b", seconds(30), 3)), Nil)
      val last = h.batchCount
      h.stop()
      def refusal(options: (String, Any)*): (String, String) =
        intercept[Exception](read(d, options: _*)) match {
          case e: SparkThrowable => e.getCondition -> e.getMessage
          case e => throw e
        }
      assert(refusal("from_version" -> 3, "version" -> 2)._1 == "TAILRACE_OPTION_INVALID")
      assert(refusal("from_version" -> 99)._1 == "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED")
      assert(refusal("from_versoin" -> 1)._2.contains("from_version, of, operator, version"))
      assert(refusal("from_version" -> 1, "of" -> "hosts")._1 == "TAILRACE_OPTION_CONFLICT")
      assert(read(d, "from_version" -> last).count() == 0)
      Tailrace.rescale(spark, d.getPath, 3)
      assert(refusal("from_version" -> (last - 1))._2.contains("new numbers"))
    }
  }
}
