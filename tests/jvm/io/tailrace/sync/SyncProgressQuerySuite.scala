package io.tailrace.sync

import java.io.File
import java.sql.Timestamp
import java.util.concurrent.ConcurrentSkipListMap

import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Union}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.tailrace.{MemoryStream, RunClock, SparkPlans, StreamAccess}
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.common.{Policy, Side}
import io.tailrace.testkit.{FakeRecord, FakeTopics, Logged, LoggedStream, SparkSuite}

/** Queries with the nodes of a synced join's progress, under a union where the join would be. */
abstract class SyncProgressQuerySuite extends SparkSuite {
  import SyncProgressQuerySuite._

  protected def progress(
      side: Side,
      frame: DataFrame,
      partitions: Seq[String],
      time: String,
      settings: SyncSettings
  ): SyncProgress = {
    val plan = SparkPlans.analyzed(frame)
    def column(name: String) = plan.output.find(_.name == name).get
    SyncProgress(side, partitions.map(column), column(time), settings, plan)
  }

  protected def both(settings: SyncSettings, partitions: Seq[String], time: String = "at")(
      left: DataFrame,
      right: DataFrame
  ): DataFrame = {
    val sides: Seq[LogicalPlan] = Seq(
      Synced.of(progress(Side.Left, left, partitions, time, settings), settings),
      progress(Side.Right, right, partitions, time, settings)
    )
    SparkPlans.toFrame(spark, Union(sides))
  }

  /** A query that keeps what each of its batches was judged by. */
  protected final class Judged(checkpoint: File, settings: SyncSettings, clock: Option[RunClock] = None)(
      frame: => DataFrame
  ) {
    val times = new ConcurrentSkipListMap[Long, SyncTimes]
    val rows = new ConcurrentSkipListMap[Long, Seq[Row]]
    @volatile var failing = false
    @volatile var peeking = false
    private var query: StreamingQuery = _

    def start(): Judged = {
      query = StreamAccess.start(frame, checkpoint.getPath, clock) { (batch, id) =>
        rows.put(id, batch.collect().toSeq)
        if (peeking) batch.take(1): Unit
        val run = SyncRun.of(spark, settings)
        times.put(id, run.times(id))
        if (failing) {
          failing = false
          throw new IllegalStateException("as the test wants it")
        }
      }
      this
    }

    def restart(): Judged = {
      query.stop()
      start()
    }

    def streaming: StreamingQuery = query

    /** Adds rows as one batch. @return what the batch after it is judged by */
    def add(body: => Unit): SyncTimes = {
      StreamAccess.betweenBatches(query)(body)
      query.processAllAvailable()
      next
    }

    def next: SyncTimes = {
      val report = metrics
      def micros(name: String): Long =
        Option(report.getAs[Timestamp](name)).fold(SyncTimes.Unknown)(_.getTime * 1000)
      SyncTimes(micros("syncTime"), micros("leftLow"))
    }

    def metrics: Row =
      query.recentProgress
        .filter(_.observedMetrics.containsKey("tailrace.syncJoin.clicks"))
        .last
        .observedMetrics
        .get("tailrace.syncJoin.clicks")

    def heldBackBy: Seq[String] =
      metrics.getSeq[Row](6).map(w => s"${w.getString(0)} ${w.getString(1)} ${w.getString(5)}")
  }

  protected def memory(
      checkpoint: File,
      settings: SyncSettings = Settings,
      clock: Option[RunClock] = None
  ) = {
    import spark.implicits._
    val left = MemoryStream[Logged](spark)
    val right = MemoryStream[Logged](spark)
    val query =
      new Judged(checkpoint, settings, clock)(both(settings, Seq("host"))(left.toDF(), right.toDF()))
    (left, right, query)
  }

  protected def time(second: Double): Long = LoggedStream.at(second).getTime * 1000

  protected def topics(
      checkpoint: File,
      settings: SyncSettings = Settings,
      clock: Option[RunClock] = None
  )(change: DataFrame => DataFrame) = {
    val left = new FakeTopics(s"left-${checkpoint.getName}")
    val right = new FakeTopics(s"right-${checkpoint.getName}")
    val columns = Seq("topic", "partition")
    val query = new Judged(checkpoint, settings, clock)(
      both(settings, columns)(change(left.frame(spark)), change(right.frame(spark)))
    )
    (left, right, query)
  }

  protected def at(second: Double): FakeRecord = FakeRecord("k", time(second), 0)
}

object SyncProgressQuerySuite {
  private[sync] val Settings = SyncSettings(
    name = "clicks",
    syncDelay = 5000000,
    window = 60000000,
    onStall = Policy.Pause,
    stallAfterMs = 600000,
    onDuplicate = Policy.Emit,
    emitsUnmatchedRight = false,
    maxBuffered = None
  )
}
