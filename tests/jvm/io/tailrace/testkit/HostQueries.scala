package io.tailrace.testkit

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.col

import io.tailrace.api.Tailrace
import io.tailrace.label.JoinOptions
import io.tailrace.recursion.RecursionOptions
import io.tailrace.replay.ReplayOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.watermark.WatermarkOptions

/** A query of each operator that keeps something, over what a server and its hosts have logged. */
object HostQueries {

  final case class Arrived(id: Long, host: String, rounds: Int, at: Timestamp)

  /** The rows of one batch. */
  final case class Arrivals(served: Seq[Arrived], logs: Seq[Arrived])

  type Query = (DataFrame, DataFrame) => DataFrame

  /** Seconds of event time of a batch. */
  private val Length = 3

  val syncJoin: Query = synced(oneToOne = false)
  val syncPairs: Query = synced(oneToOne = true)

  private def synced(oneToOne: Boolean): Query = (served, logs) => {
    val host = Seq("host")
    val options = SyncOptions("at", "at", "1 hour", "1 second", leftPartition = host, rightPartition = host)
    Tailrace.syncJoin(served, logs, Seq("id" -> "id"), options.copy(oneToOne = oneToOne))
  }

  val watermark: Query = (_, logs) => waiting(logs).groupBy("at").count()

  val recursion: Query = (_, logs) => {
    val rows = waiting(logs).select("rounds", "at")
    Tailrace
      .recursively(rows, RecursionOptions(mode = "feedback")) { u =>
        u.where("rounds > 0").select((col("rounds") - 1).as("rounds"), col("at"))
      }
      .groupBy("at")
      .count()
  }

  val replays: Query = (_, logs) => {
    val records = logs.selectExpr(
      "crc32(host) AS pid",
      "0 AS part",
      "unix_seconds(at) AS offset",
      "'logs' AS topic",
      "id"
    )
    Tailrace.filterReplays(records, ReplayOptions(Seq("pid", "part", "offset"), Seq("topic", "part", "id")))
  }

  val labelJoin: Query = (served, logs) => {
    val options = JoinOptions(leftTime = "at", rightTime = "at", after = "2 seconds")
    val left = served.withWatermark("at", "16 seconds")
    val right = logs.select("id", "host", "at").withWatermark("at", "16 seconds")
    Tailrace.join(left, right, Seq("id" -> "id"), options)
  }

  def waiting(logs: DataFrame): DataFrame =
    Tailrace.accurateWatermark(logs, "at", "host", WatermarkOptions(completeness = "100%"))

  /** Each batch has a new host. Its late rows come some batches later, and are its last: a query that has
    * lost the host doesn't wait for them.
    */
  def arrivals(batches: Int, random: Random): Seq[Arrivals] = {
    val lags = Seq.fill(batches)(2 + random.nextInt(4))
    (0 until batches).map { b =>
      val now = b * Length
      val begins = Arrived(-b - 1L, s"host-$b", 2, at(now))
      val returning = (0 until b).filter(before => before + lags(before) == b)
      val returned = returning.flatMap { h =>
        rows(h, s"host-$h") :+ Arrived(-1000L - h, s"host-$h", 0, at(100000))
      }
      Arrivals(rows(b, "server"), begins +: returned)
    }
  }

  private def rows(batch: Int, host: String): Seq[Arrived] =
    (batch * Length until (batch + 1) * Length).map(s => Arrived(s.toLong, host, 2, at(s)))

  private def at(second: Int): Timestamp = LoggedStream.at(second.toDouble)
}
