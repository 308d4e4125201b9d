package io.tailrace.plan

import java.io.File
import java.sql.Timestamp

import scala.util.Random
import scala.util.control.NonFatal

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.tailrace.StreamAccess

import io.tailrace.api.Tailrace
import io.tailrace.recursion.RecursionOptions
import io.tailrace.replay.ReplayOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.testkit.FileStep._
import io.tailrace.testkit.{
  Campaign,
  CampaignSuite,
  FileFault,
  FileFaults,
  LoggedStream,
  SparkSuite,
  WatchedFiles
}
import io.tailrace.watermark.WatermarkOptions

/** Queries whose driver keeps something of each batch, with Spark's file sink, on a file system where steps
  * of a batch fail. They must give the rows of a run without failures. The sink skips a batch that it has
  * committed, so only we can restore what is lost between its commit and Spark's.
  */
final class EndOfBatchFaultsSuite extends SparkSuite with CampaignSuite {
  import EndOfBatchFaultsSuite._

  test("a synced join waits for all partitions that have come") {
    same("run$", "manifest$", "/tailrace-sync/") { (served, logs) =>
      val host = Seq("host")
      val options = SyncOptions("at", "at", "1 hour", "1 second", leftPartition = host, rightPartition = host)
      Tailrace
        .syncJoin(served, logs, Seq("id" -> "id"), options)
        .select("id", "at", "at_right")
    }
  }

  test("a watermark waits for all hosts that have come") {
    same("/tailrace-watermark/")((_, logs) => waiting(logs).groupBy("at").count())
  }

  test("rows that go round hold the watermark") {
    same("/tailrace-watermark/", "/tailrace-recursion/") { (_, logs) =>
      val rows = waiting(logs).select("rounds", "at")
      Tailrace
        .recursively(rows, RecursionOptions(mode = "feedback")) { u =>
          u.where("rounds > 0").select((col("rounds") - 1).as("rounds"), col("at"))
        }
        .groupBy("at")
        .count()
    }
  }

  test("records pass once") {
    same("/tailrace-replay/") { (_, logs) =>
      val records =
        logs.selectExpr(
          "crc32(host) AS pid",
          "0 AS part",
          "unix_seconds(at) AS offset",
          "'logs' AS topic",
          "id"
        )
      Tailrace.filterReplays(records, ReplayOptions(Seq("pid", "part", "offset"), Seq("topic", "part", "id")))
    }
  }

  private def waiting(logs: DataFrame): DataFrame =
    Tailrace.accurateWatermark(logs, "at", "host", WatermarkOptions(completeness = "100%"))

  /** @param files of the query */
  private def same(files: String*)(query: (DataFrame, DataFrame) => DataFrame): Unit = {
    // After the sink has committed the batch, and before Spark has.
    val between =
      for (file <- files.filter(_.startsWith("/")); step <- Seq(Create, Renamed))
        yield FileFault(step, file.r)
    val others = for {
      file <- Seq("/offsets/", "/commits/") ++ files.filterNot(_.startsWith("/"))
      step <- Seq(Create, Renamed)
    } yield FileFault(step, file.r)
    val faults = between ++ (if (Campaign.isLong) others else Seq(FileFault(Create, "/commits/".r)))
    val schedule = arrivals(Before + faults.size + After, new Random(5))
    withConf("spark.sql.shuffle.partitions" -> 1) {
      val expected = new Run(query).all(schedule, Nil)
      assert(expected.size > faults.size)
      val found =
        withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName)(new Run(query).all(schedule, faults))
      assert(found == expected)
    }
  }

  /** One query from its first to its last batch. */
  private final class Run(query: (DataFrame, DataFrame) => DataFrame) {
    private val session = spark
    import session.implicits._

    private val served = MemoryStream[Arrived](spark)
    private val logs = MemoryStream[Arrived](spark)
    private val result = query(served.toDF(), logs.toDF())
    private var running: Option[StreamingQuery] = None
    private var added = Option.empty[Arrivals]

    /** @param faults one for each batch after the first ones
      * @return all rows that have come out
      */
    def all(schedule: Seq[Arrivals], faults: Seq[FileFault]): Seq[String] = withDirectory { d =>
      schedule.zipWithIndex.foreach { case (batch, i) =>
        faults.lift(i - Before).foreach { fault =>
          val (error, fired) = FileFaults.during(fault)(attempt(d, batch))
          assert(fired.nonEmpty && error.isDefined, fault)
        }
        attempt(d, batch).foreach(throw _)
      }
      running.foreach(_.stop())
      val rows = spark.read.schema(result.schema).parquet(new File(d, "out").getPath).collect()
      rows.map(_.toString).sorted.toSeq
    }

    private def attempt(d: File, batch: Arrivals): Option[Throwable] =
      try {
        val streaming = running.getOrElse(start(d))
        running = Some(streaming)
        StreamAccess.betweenBatches(streaming) {
          if (!added.contains(batch)) {
            served.addData(batch.served)
            logs.addData(batch.logs)
            added = Some(batch)
          }
        }
        streaming.processAllAvailable()
        None
      } catch {
        case NonFatal(e) =>
          running.foreach(_.stop())
          running = None
          Some(e)
      }

    private def start(d: File): StreamingQuery = {
      val writer = result.writeStream.option("checkpointLocation", new File(d, "checkpoint").getPath)
      writer.format("parquet").start(new File(d, "out").getPath)
    }
  }
}

private object EndOfBatchFaultsSuite {

  final case class Arrived(id: Long, host: String, rounds: Int, at: Timestamp)

  /** Of one batch. */
  final case class Arrivals(served: Seq[Arrived], logs: Seq[Arrived])

  /** The number of batches without a fault. */
  private val Before, After = 4

  /** Seconds of event time of a batch. */
  private val Length = 3

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
