package io.tailrace.replay

import java.io.File
import java.sql.Timestamp
import java.util.concurrent.ConcurrentSkipListMap

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, StreamingQueryException}
import org.apache.spark.sql.tailrace.{MemoryStream, StreamAccess}
import org.apache.spark.sql.{DataFrame, Dataset, Row}

import io.tailrace.api.Tailrace
import io.tailrace.testkit.SparkSuite

/** A record of a topic that pipeline 1 has written: where it stands there, and where it comes from. */
final case class Written(
    topic: String,
    partition: Int,
    offset: Long,
    key: Array[Byte],
    value: String,
    at: Timestamp = new Timestamp(0)
)

/** Queries with a replay filter, over records whose batches the test decides. */
abstract class ReplayPipelineSuite extends SparkSuite {
  import spark.implicits._

  protected type Filter = DataFrame => DataFrame
  protected val byKey: Filter = Tailrace.filterReplays(_, ReplayOptions())

  /** A stream of records whose batch cuts the test decides; results by batch, as in an idempotent sink.
    *
    * @param clockMs the clock of the query, if it isn't the system's
    */
  protected final class Pipeline(checkpoint: File, var filter: Filter, clockMs: Option[() => Long] = None) {
    private val source = MemoryStream[Written](spark)
    private val batches = new ConcurrentSkipListMap[Long, Seq[String]]
    private var running: StreamingQuery = _
    @volatile var failNext = false
    @volatile var taking = Int.MaxValue
    @volatile var actions: Dataset[Row] => Unit = _ => ()

    def start(): Pipeline = {
      val rows = filter(source.toDF())
      running = clockMs match {
        case Some(clock) => StreamAccess.start(rows, checkpoint.getPath, clock)(take)
        case None =>
          rows.writeStream
            .outputMode(OutputMode.Append)
            .option("checkpointLocation", checkpoint.getPath)
            .foreachBatch(take _)
            .start()
      }
      this
    }

    private def take(rows: Dataset[Row], batch: Long): Unit = {
      val part = if (taking < Int.MaxValue) rows.limit(taking) else rows
      batches.put(batch, part.collect().map(_.getAs[String]("value")).toSeq)
      actions(rows)
      if (failNext) {
        failNext = false
        throw new IllegalStateException("as the test wants it")
      }
    }

    def restart(): Pipeline = {
      running.stop()
      start()
    }

    /** One batch. Its rows come in any order and from any task: those of the source, not the topic's. */
    def add(records: Seq[Written]): Unit = {
      StreamAccess.betweenBatches(running)(source.addData(records))
      running.processAllAvailable()
    }

    def fails(records: Seq[Written]): Unit = {
      intercept[StreamingQueryException](add(records))
      ()
    }

    def failure: (String, Map[String, String]) = failureOf(running)
    def query: StreamingQuery = running
    def counts: Row = running.lastProgress.observedMetrics.get("tailrace.replays")
    def values: Seq[String] = batches.values.asScala.flatten.toSeq
  }

  protected def written(partition: Int, offset: Long, pid: Long, source: Int, position: Long): Written =
    Written("t", partition, offset, RecordMetadata.encode(pid, source, position), s"$pid/$source/$position")

  /** The records of pipeline 1, in the topic's order: each origin's records in order, some runs of them
    * once more.
    */
  protected def topic(random: Random, origins: Int, length: Int): Seq[Written] = {
    val next = Array.fill(origins)(0L)
    var offset = 0L
    (0 until length).flatMap { _ =>
      val origin = random.nextInt(origins)
      if (random.nextInt(5) == 0) next(origin) = Math.max(0, next(origin) - random.nextInt(8))
      (0 to random.nextInt(4)).map { _ =>
        offset += 1 + random.nextInt(3)
        next(origin) += 1
        // Two partitions of the topic, each with some of the origins.
        written(origin % 2, offset, 100L + origin / 2, origin % 2, next(origin))
      }
    }
  }

  protected def firstOfEach(records: Seq[Written]): Set[String] = records.map(_.value).toSet

  protected def failsByName(pipeline: Pipeline, condition: String)(body: => Unit): Unit = {
    intercept[StreamingQueryException](body)
    assert(pipeline.failure._1 == condition, pipeline.failure)
    ()
  }
}
