package io.tailrace.plan

import java.io.File
import java.sql.Timestamp

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.{DataFrame, Encoders, Row}

import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Campaign, Engaged, Served, SlowSuite, SparkSuite, StreamHarness}

/** The join, a windowed aggregation and a transformWithState in one query: its rows over a restart, and the
  * state of each operator as Spark's state reader reads it.
  */
class MixedStateSuite extends SparkSuite with SlowSuite {
  import MixedStateSuite._

  private val WindowSeconds = 20
  private val After = 10
  private val keys = Seq("a", "b", "c")
  private val steps = 8
  private val restartAt = 4

  /** The number of left rows and of labels by key and window, and the sums so far by key. */
  private def query(l: DataFrame, r: DataFrame): DataFrame =
    MixedStateSuite.totals(
      join(options(s"$After seconds"))(l, r)
        .groupBy(col("k"), window(col("t"), s"$WindowSeconds seconds"))
        .agg(count("*").as("n"), sum(size(col("labels"))).as("labels"))
        .select(col("k"), col("window.end").as("end"), col("n"), col("labels"))
    )

  private def served(step: Int): Seq[Served] =
    keys.zipWithIndex.map { case (k, i) => Served(k, seconds(step * 10 + i), step) }

  private def engaged(step: Int): Seq[Engaged] =
    keys.take(2).map(k => Engaged(k, seconds(step * 10 + 5), step)) :+ Engaged(
      "c",
      seconds(step * 10 + 2),
      step
    )

  /** The totals of each closed window, in order of time, without Spark. */
  private def expected(watermark: Double): Set[Totals] = {
    val lefts = (0 until steps).flatMap(served)
    val rights = (0 until steps).flatMap(engaged)
    val closed =
      (0 to steps).map(_ * WindowSeconds).filter(start => start + WindowSeconds + After <= watermark)
    keys.flatMap { k =>
      closed
        .scanLeft((0, Totals(k, null, 0, 0))) { case ((_, before), start) =>
          val inWindow = lefts.filter(l =>
            l.k == k && !l.t.before(seconds(start)) && l.t.before(seconds(start + WindowSeconds))
          )
          val labels = inWindow.map { l =>
            val last = new Timestamp(l.t.getTime + After * 1000L)
            rights.count(r => r.k == k && !r.rt.before(l.t) && !r.rt.after(last))
          }.sum
          (start, Totals(k, seconds(start + WindowSeconds), before.n + inWindow.size, before.labels + labels))
        }
        .map(_._2)
        .tail
    }.toSet
  }

  private def totals(rows: Seq[Row]): Seq[Totals] =
    rows.map(r => Totals(r.getString(0), r.getTimestamp(1), r.getLong(2), r.getLong(3)))

  private def state(d: File, operator: Long, settings: (String, String)*): DataFrame =
    spark.read.format("statestore").options(settings.toMap).option("operatorId", operator).load(d.getPath)

  /** Operator ids by the operator's name, as Spark's own metadata of the checkpoint has them. */
  private def operators(d: File): Map[String, Long] =
    spark.read
      .format("state-metadata")
      .load(d.getPath)
      .collect()
      .map(r => r.getAs[String]("operatorName") -> r.getAs[Long]("operatorId"))
      .toMap

  for (format <- Seq(1, 2); provider <- Seq(RocksDB, BeforeVersion01)) {
    // What a new checkpoint has is among the tests.
    val tags = if (format == 1 && provider == RocksDB) Nil else Seq(Campaign)
    test(
      s"one query of three operators over a restart, and the state of each; format $format, on $provider",
      tags: _*
    ) {
      withConf(Provider -> provider, "spark.sql.streaming.stateStore.checkpointFormatVersion" -> format) {
        withDirectory { d =>
          val h = new StreamHarness(spark, d)(query).start()
          (0 until steps).foreach { step =>
            if (step == restartAt) h.restart()
            h.rows(served(step), engaged(step))
          }
          // The watermark is the least of both sides' newest times, 72.
          val found = totals(h.allRows)
          assert(found.toSet == expected(72) && found.size == expected(72).size)
          assert(found.size == 9 && found.map(_.labels).max > 0)
          assert(h.dropped == 0)
          checkState(d, h)
        }
      }
    }
  }

  test(
    "a checkpoint that names the provider of before version 0.1 goes on, whatever the session's provider is",
    Campaign
  ) {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(query)
      val before = restartAt
      withConf(Provider -> BeforeVersion01) {
        h.start()
        (0 until before).foreach(step => h.rows(served(step), engaged(step)))
        h.stop()
      }
      h.start()
      (before until steps).foreach(step => h.rows(served(step), engaged(step)))
      assert(totals(h.allRows).toSet == expected(72))
      checkState(d, h)
    }
  }

  test("the join keeps its own provider beside operators on Spark's HDFS-backed provider", Campaign) {
    withConf(Provider -> Hdfs) {
      withDirectory { d =>
        val h = new StreamHarness(spark, d)((l, r) =>
          join(options(s"$After seconds"))(l, r)
            .groupBy(window(col("t"), s"$WindowSeconds seconds"))
            .agg(count("*").as("n"))
        ).start()
        (0 until steps).foreach { step =>
          if (step == restartAt) h.restart()
          h.rows(served(step), engaged(step))
        }
        assert(h.allRows.map(_.getLong(1)) == Seq(6, 6, 6))
        val ids = operators(d)
        assert(
          state(d, ids("tailraceLabelJoin")).where("key.tailrace_store = 'left-time-sorted'").count() > 0
        )
        val feed = Seq("readChangeFeed" -> "true", "changeStartBatchId" -> "0")
        val error = intercept[Exception](state(d, ids("tailraceLabelJoin"), feed: _*).collect())
        val texts =
          Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).map(_.getMessage).toSeq
        assert(
          texts.exists(_.contains("STATE_STORE_PROVIDER_DOES_NOT_SUPPORT_FINE_GRAINED_STATE_REPLAY")),
          texts
        )
        assert(state(d, ids("stateStoreSave")).count() > 0)
        val files = Option(new File(d, s"state/${ids("stateStoreSave")}/0").list).toSeq.flatten
        assert(files.exists(_.endsWith(".delta")))
      }
    }
  }

  test("Spark refuses transformWithState on its HDFS-backed provider") {
    val other = Hdfs
    withConf(Provider -> other) {
      withDirectory { d =>
        val h = new StreamHarness(spark, d)((l, _) =>
          MixedStateSuite.totals(
            l.select(col("k"), col("t").as("end"), lit(1L).as("n"), lit(0L).as("labels"))
          )
        ).start()
        h.add(served(0), Nil)
        val e = intercept[StreamingQueryException](h.streaming.processAllAvailable())
        // Minor versions of Spark find it at different steps.
        val conditions = Seq("STORE_BACKEND_NOT_SUPPORTED_FOR_TWS", "STATE_STORE_MULTIPLE_COLUMN_FAMILIES")
        assert(conditions.exists(e.getMessage.contains(_)), e.getMessage)
        assert(e.getMessage.contains(other.split('.').last))
      }
    }
  }

  private def checkState(d: File, h: StreamHarness): Unit = {
    val ids = operators(d)
    assert(ids.keySet == Set("tailraceLabelJoin", "stateStoreSave", "transformWithStateExec"))
    val reports = h.reports.last.map(p => p.operatorName -> p).toMap
    val joined = state(d, ids("tailraceLabelJoin"))
    val buffered = joined
      .select("key.tailrace_store", "key.event_time", "key.seq", "key.key", "value.row", "partition_id")
      .collect()
      .toSeq
    assert(buffered.size == reports("tailraceLabelJoin").numRowsTotal)
    val times = buffered.groupMap(_.getString(0))(_.getTimestamp(1))
    // Left rows that haven't come out: their windows end after the watermark.
    assert(
      times("left-time-sorted")
        .sortBy(_.getTime) == (0 until steps).flatMap(served).map(_.t).filter(_.after(seconds(62)))
    )
    assert(times("right-key-sorted").nonEmpty)
    val aggregated =
      state(d, ids("stateStoreSave")).select("key.k", "key.window.end", "value.count").collect()
    assert(aggregated.nonEmpty && aggregated.length == reports("stateStoreSave").numRowsTotal)
    val sums = state(d, ids("transformWithStateExec"), "stateVarName" -> "sums")
      .select("key.value", "value.n", "value.labels")
      .collect()
      .map(r => r.getString(0) -> ((r.getLong(1), r.getLong(2))))
    val last = expected(72).groupBy(_.k).values.map(_.maxBy(_.n)).map(t => t.k -> ((t.n, t.labels)))
    assert(sums.toMap == last.toMap && sums.length == keys.size)
  }
}

object MixedStateSuite {
  val Provider = "spark.sql.streaming.stateStore.providerClass"
  val RocksDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  private val Hdfs = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
  private val BeforeVersion01 = "io.tailrace.state.TailraceStateStoreProvider"

  final case class Counted(k: String, end: Timestamp, n: Long, labels: Long)
  final case class Totals(k: String, end: Timestamp, n: Long, labels: Long)
  final case class Sums(n: Long, labels: Long)

  def totals(counted: DataFrame): DataFrame = {
    import counted.sparkSession.implicits._
    counted
      .as[Counted]
      .groupByKey(_.k)
      .transformWithState(new RunningTotals, TimeMode.None(), OutputMode.Append())
      .toDF()
  }

  /** Adds up the windows of a key, in the order of time. */
  final class RunningTotals extends StatefulProcessor[String, Counted, Totals] {
    @transient private var sums: ValueState[Sums] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
      sums = getHandle.getValueState[Sums]("sums", Encoders.product[Sums], TTLConfig.NONE)

    override def handleInputRows(k: String, rows: Iterator[Counted], timers: TimerValues): Iterator[Totals] =
      rows.toSeq.sortBy(_.end.getTime).iterator.map { row =>
        val before = if (sums.exists()) sums.get() else Sums(0, 0)
        val now = Sums(before.n + row.n, before.labels + row.labels)
        sums.update(now)
        Totals(k, row.end, now.n, now.labels)
      }
  }
}
