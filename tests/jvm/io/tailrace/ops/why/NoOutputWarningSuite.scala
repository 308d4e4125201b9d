package io.tailrace.ops.why

import java.io.File

import org.apache.spark.sql.DataFrame

import io.tailrace.api.Tailrace
import io.tailrace.common.EventTimes.iso
import io.tailrace.label.JoinOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.{microsOf, seconds}
import io.tailrace.testkit._
import io.tailrace.watermark.WatermarkOptions

/** The warning of a query that runs, has input, and gives nothing. */
final class NoOutputWarningSuite extends SparkSuite {
  private val window = options("10 seconds").copy(releaseEvery = Some("batch"))
  private val minutes = 60L * 1000

  private def time(second: Double): String = iso(microsOf(seconds(second)))
  private def served(second: Double, id: Int): Served = Served("a", seconds(second), id)
  private def engaged(second: Double, id: Int): Engaged = Engaged("a", seconds(second), id)

  /** Runs steps of a query, each eleven minutes after the one before. @return what each step warns of */
  private def warnings(query: (DataFrame, DataFrame) => DataFrame)(
      steps: (Seq[Served], Seq[Engaged])*
  ): Seq[Seq[String]] = withClock { (d: File, clock: ManualClock) =>
    val harness = new StreamHarness(spark, d, Some(clock))(query).start()
    val told = steps.map { case (left, right) =>
      val texts = Warnings.of("io.tailrace.join.NoOutputWarning")(harness.rows(left, right): Unit)
      clock.advance(11 * minutes)
      texts
    }
    harness.stop()
    told
  }

  test("a stream that gives nothing holds a label join: once, and again when a row has come out in between") {
    val told = warnings(join(window))(
      Seq(served(1, 1)) -> Nil,
      Seq(served(2, 2)) -> Nil,
      Seq(served(3, 3)) -> Nil,
      Seq(served(12, 4)) -> Seq(engaged(12, 1)),
      Seq(served(13, 5)) -> Nil,
      Seq(served(14, 6)) -> Nil
    )
    assert(told.map(_.size) == Seq(0, 1, 0, 0, 0, 1))
    assert(
      told(
        1
      ).head == "TAILRACE_NO_OUTPUT: tailraceLabelJoin-0 has had input for 11 min, and has emitted nothing. " +
        "There is no watermark yet. The stream of `rt` holds it: no row of it has arrived since the query started. The " +
        s"next row to be emitted is not older than ${time(1)} (partition ${partition(told(1).head)}). It is emitted when " +
        s"the watermark has reached ${time(11)}: there is no watermark yet."
    )
    assert(
      told(5).head.contains(
        s"The watermark is ${time(12)}. The stream of `rt` holds it, the one that is furthest"
      )
    )
    assert(
      told(5).head.contains(
        s"the watermark has reached ${time(13)}: it is ${time(12)}, and 1 s of event time"
      )
    )
  }

  private def partition(text: String): String = "partition (\\d)".r.findFirstMatchIn(text).get.group(1)

  test("the limit is a setting; batches without rows count nothing") {
    val told = withConf("spark.tailrace.monitor.noOutputAfter" -> "12 minutes")(
      warnings(join(window))(Seq(served(1, 1)) -> Nil, Seq(served(2, 2)) -> Nil, Seq(served(3, 3)) -> Nil)
    )
    assert(told.map(_.size) == Seq(0, 0, 1))
  }

  test("all left rows are late") {
    val told = warnings(join(window))(
      Seq(served(1, 1), served(100, 1)) -> Seq(engaged(100, 1)),
      Seq(served(150, 2)) -> Seq(engaged(150, 2)),
      Seq(served(50, 3)) -> Nil,
      Seq(served(51, 4)) -> Nil
    )
    assert(told.map(_.size) == Seq(0, 0, 0, 1))
    assert(
      told(3).head.contains("1 left row and 0 right rows of the last micro-batch were behind the watermark")
    )
  }

  test("pairs: without right rows it is known why nothing comes, and otherwise not") {
    val pairs = options("10 seconds").copy(how = "inner")
    val none = warnings(join(pairs))(Seq(served(1, 1)) -> Nil, Seq(served(2, 2)) -> Nil)
    assert(none.map(_.size) == Seq(0, 1))
    assert(none(1).head.contains("No right row is in the state: none has arrived"))
    def others(second: Double) = Seq(Engaged("b", seconds(second), 1))
    val unknown = warnings(join(pairs))(Seq(served(1, 1)) -> others(5), Seq(served(2, 2)) -> others(6))
    assert(unknown.flatten.isEmpty)
  }

  test("a synced join names the partition that it waits for, and what on_stall does") {
    def synced(left: DataFrame, right: DataFrame): DataFrame = Tailrace.syncJoin(
      left,
      right,
      Seq("k" -> "k"),
      SyncOptions("t", "rt", "1 minute", "5 seconds", leftPartition = Seq("id"), rightPartition = Seq("rid"))
    )
    val told = warnings(synced)(
      Seq(served(10, 0)) -> Seq(engaged(11, 1), engaged(40, 2)),
      Seq(served(20, 0)) -> Seq(engaged(50, 2))
    )
    assert(told.map(_.size) == Seq(0, 1))
    val text = told(1).head
    assert(text.contains("2 left rows and 3 right rows are in the state."))
    assert(
      text.contains(s"The right side waits for partition 1: it has been read up to ${time(11)}, 39 s behind")
    )
    assert(text.contains("on_stall is 'pause': the join waits until it has rows again."))
    assert(
      text.contains(s"been read past ${time(15)}: it is at ${time(11)}, and 4 s of event time are missing.")
    )
  }

  test("hosts of an accurate watermark: who holds it, and who was never seen") {
    def hosts(left: DataFrame, right: DataFrame): DataFrame = {
      val roster = WatermarkOptions(completeness = "100%", hosts = Some(Seq("a", "b")))
      val host = Tailrace.accurateWatermark(left, "t", "k", roster)
      val labels = JoinOptions(leftTime = "t", rightTime = "rt", after = "10 seconds")
      Tailrace.join(host, right.withWatermark("rt", "0 seconds"), Seq("k" -> "k"), labels)
    }
    val told = warnings(hosts)(
      Seq(served(1, 1)) -> Seq(engaged(50, 1)),
      Seq(served(50, 2)) -> Nil
    )
    assert(told.map(_.size) == Seq(0, 1))
    assert(
      told(1).head.contains(
        "The 2 hosts of the watermark 'watermark' have no low watermark yet; no row has arrived from 1 host: b; host a has " +
          s"been read up to ${time(50)}."
      )
    )
    assert(told(1).head.contains("plus at most 156 ms 250 us up to its release step"))
  }
}
