package io.tailrace.plan

import java.io.File

import scala.util.Random
import scala.util.control.NonFatal

import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.tailrace.{MemoryStream, StreamAccess}

import io.tailrace.testkit.FileStep._
import io.tailrace.testkit.{
  Campaign,
  CampaignSuite,
  FileFault,
  FileFaults,
  HostQueries,
  SparkSuite,
  WatchedFiles
}

/** Queries whose driver keeps something of each batch, with Spark's file sink, on a file system where steps
  * of a batch fail. They must give the rows of a run without failures. The sink skips a batch that it has
  * committed, so only we can restore what is lost between its commit and Spark's.
  */
final class EndOfBatchFaultsSuite extends SparkSuite with CampaignSuite {
  import EndOfBatchFaultsSuite._
  import HostQueries._

  test("a synced join waits for all partitions that have come") {
    same("manifest$", "/tailrace-sync/")(HostQueries.syncJoin)
  }

  test("a watermark waits for all hosts that have come") {
    same("/tailrace-watermark/")(HostQueries.watermark)
  }

  test("rows that go round hold the watermark") {
    same("/tailrace-watermark/", "/tailrace-recursion/")(HostQueries.recursion)
  }

  test("records pass once") {
    same("/tailrace-replay/")(HostQueries.replays)
  }

  /** @param files of the query */
  private def same(files: String*)(query: HostQueries.Query): Unit = {
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
  private final class Run(query: HostQueries.Query) {
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

  /** The number of batches without a fault. */
  private val Before, After = 2
}
