package io.tailrace.sync

import java.io.File
import java.sql.Timestamp
import java.util.concurrent.ConcurrentSkipListMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Union}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.tailrace.{SparkPlans, StreamAccess}
import org.apache.spark.sql.{DataFrame, Dataset, Row}

import io.tailrace.common.Policy
import io.tailrace.testkit.LoggedStream.logged
import io.tailrace.testkit.{FakeRecord, FakeTopics, Logged, LoggedStream, SparkSuite}

/** The nodes of a synced join's progress in streaming queries, under a union where the join would be. */
final class SyncProgressStreamSuite extends SparkSuite {
  import SyncProgressStreamSuite._

  private def progress(
      side: SyncSide,
      frame: DataFrame,
      partitions: Seq[String],
      time: String,
      settings: SyncSettings
  ): SyncProgress = {
    val plan = SparkPlans.analyzed(frame)
    def column(name: String) = plan.output.find(_.name == name).get
    SyncProgress(side, partitions.map(column), column(time), settings, plan)
  }

  private def both(settings: SyncSettings, partitions: Seq[String], time: String = "at")(
      left: DataFrame,
      right: DataFrame
  ): DataFrame = {
    val sides: Seq[LogicalPlan] = Seq(
      Synced.of(progress(SyncSide.Left, left, partitions, time, settings), settings),
      progress(SyncSide.Right, right, partitions, time, settings)
    )
    SparkPlans.toFrame(spark, Union(sides))
  }

  /** A query that keeps what each of its batches was judged by. */
  private final class Judged(checkpoint: File, settings: SyncSettings)(frame: => DataFrame) {
    val times = new ConcurrentSkipListMap[Long, SyncTimes]
    val rows = new ConcurrentSkipListMap[Long, Seq[Row]]
    @volatile var failing = false
    @volatile var peeking = false
    private var query: StreamingQuery = _

    def start(): Judged = {
      query = frame.writeStream
        .option("checkpointLocation", checkpoint.getPath)
        .foreachBatch { (batch: Dataset[Row], id: Long) =>
          rows.put(id, batch.collect().toSeq)
          if (peeking) batch.take(1): Unit
          val run = SyncRun.of(spark, settings)
          times.put(id, run.times(id))
          if (failing) {
            failing = false
            throw new IllegalStateException("as the test wants it")
          }
        }
        .start()
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

    def waitsFor: Seq[String] =
      metrics.getSeq[Row](6).map(w => s"${w.getString(0)} ${w.getString(1)} ${w.getString(5)}")
  }

  private def memory(checkpoint: File, settings: SyncSettings = Settings) = {
    import spark.implicits._
    val left = MemoryStream[Logged](spark)
    val right = MemoryStream[Logged](spark)
    val query = new Judged(checkpoint, settings)(both(settings, Seq("host"))(left.toDF(), right.toDF()))
    (left, right, query)
  }

  private def time(second: Double): Long = LoggedStream.at(second).getTime * 1000

  test("a batch is judged by what was known before it, in the next start too, and when it runs again") {
    withDirectory { checkpoint =>
      val (left, right, query) = memory(checkpoint)
      query.start()
      assert(
        query.add {
          left.addData(logged("a" -> 10, "b" -> 12))
          right.addData(logged("c" -> 11, "d" -> 13, "c" -> 10.5))
        } == SyncTimes(time(6), time(6))
      )
      assert(query.add(right.addData(logged("c" -> 20))) == SyncTimes(time(8), time(8)))
      assert(query.add(right.addData(logged("d" -> 30))) == SyncTimes(time(15), time(10)))
      assert(query.waitsFor == Seq("right c slow"))

      query.restart()
      // A batch that does all of its work, but for being committed.
      query.failing = true
      StreamAccess.betweenBatches(query.streaming) {
        left.addData(logged("a" -> 50))
        right.addData(logged("c" -> 40))
      }
      assert(
        intercept[Exception](query.streaming.processAllAvailable()).getMessage.contains("as the test wants")
      )
      val first = query.times.get(3L)
      assert(first == SyncTimes(time(15), time(10)))
      query.times.remove(3L): Unit
      query.start()
      query.streaming.processAllAvailable()
      assert(query.times.get(3L) == first)
      assert(query.next == SyncTimes(time(25), time(12)))

      query.restart()
      assert(query.add(left.addData(logged("b" -> 50))) == SyncTimes(time(25), time(25)))
      assert(
        query.times.asScala.toMap == Map(
          0L -> SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown),
          1L -> SyncTimes(time(6), time(6)),
          2L -> SyncTimes(time(8), time(8)),
          3L -> SyncTimes(time(15), time(10)),
          4L -> SyncTimes(time(25), time(12))
        )
      )
      assert(query.rows.asScala.values.flatten.size == 10)
    }
  }

  test("rows that jump back too far, and those that come too late, are counted by their partition") {
    withDirectory { checkpoint =>
      val (_, right, query) = memory(checkpoint)
      query.start()
      query.add(right.addData(logged("c" -> 100, "d" -> 100))): Unit
      query.add(right.addData(logged("c" -> 94.9, "c" -> 95, "e" -> 90, "e" -> 89, "d" -> 110))): Unit
      // Of c both: what is at 93 may be out.
      assert(query.metrics.getLong(4) == 2)
      assert(query.metrics.getSeq[Row](5) == Seq(Row("right", "c", 1L), Row("right", "e", 2L)))
      query.add(right.addData(logged("c" -> 120))): Unit
      assert(query.metrics.getLong(4) == 0 && query.metrics.getSeq[Row](5).isEmpty)
    }
  }

  test("rows without a time don't count, and those without a partition are one") {
    withDirectory { checkpoint =>
      val (_, right, query) = memory(checkpoint)
      query.start()
      query.add(right.addData(Logged("c", LoggedStream.at(50), 1), Logged("d", null, 2))): Unit
      assert(query.next.release == time(45))
      query.add(
        right.addData(Logged(null, LoggedStream.at(49), 1), Logged("c", LoggedStream.at(60), 2))
      ): Unit
      assert(query.next.release == time(45))
      query.add(right.addData(Logged(null, LoggedStream.at(55), 1))): Unit
      assert(query.next.release == time(50))
    }
  }

  test("a partition that has stalled fails the query, by its name, where that is wanted") {
    withClock { (checkpoint, clock) =>
      val settings = Settings.copy(onStall = Policy.Fail, stallAfterMs = 2)
      val (left, right, query) = memory(checkpoint, settings)
      query.start()
      query.add {
        left.addData(logged("a" -> 1000))
        right.addData(logged("c" -> 100, "d" -> 100))
      }: Unit
      // A batch counts a millisecond.
      clock.advance(1)
      query.add(right.addData(logged("c" -> 101))): Unit
      clock.advance(1)
      StreamAccess.betweenBatches(query.streaming)(right.addData(logged("c" -> 107)): Unit)
      val (condition, parameters) = failureOf(query.streaming)
      assert(condition == "TAILRACE_SYNC_STALLED")
      assert(
        parameters.view.filterKeys(Set("name", "side", "partition")).toMap ==
          Map("name" -> "clicks", "side" -> "right", "partition" -> "d")
      )
      assert(parameters("latest").contains("2026-01-01T12:01:40Z") && parameters("lag").startsWith("7000 ms"))
      // The next start has a batch's time to mend it.
      query.start()
      query.streaming.processAllAvailable()
      query.add(right.addData(logged("d" -> 107))): Unit
      assert(query.next.release == time(102))
    }
  }

  test("a side that stops as a whole fails the query where that is wanted for it") {
    withDirectory { checkpoint =>
      val settings =
        Settings.copy(onStall = Policy.Fail, onLeftStall = Some(Policy.Pause), stallAfterMs = 2)
      val (left, right, query) = memory(checkpoint, settings)
      query.start()
      query.add(right.addData(logged("c" -> 100))): Unit
      query.add(right.addData(logged("c" -> 101))): Unit
      query.add(right.addData(logged("c" -> 102))): Unit
      assert(query.waitsFor == Seq("left (none yet) stalled"))
      query.add(left.addData(logged("a" -> 110))): Unit
      StreamAccess.betweenBatches(query.streaming)(left.addData(logged("a" -> 112)): Unit)
      val (condition, parameters) = failureOf(query.streaming)
      assert(
        condition == "TAILRACE_SYNC_STALLED" && parameters("side") == "right" && parameters(
          "partition"
        ) == "c"
      )
      assert(parameters("lag").startsWith("10000 ms"))
    }
  }

  test("the query's own watermark is what it is without") {
    import spark.implicits._
    withDirectory { checkpoint =>
      val left = MemoryStream[Logged](spark)
      val right = MemoryStream[Logged](spark)
      def watermarked(stream: MemoryStream[Logged]) = stream.toDF().withWatermark("at", "10 seconds")
      val query = new Judged(checkpoint, Settings)(
        both(Settings, Seq("host"))(watermarked(left), watermarked(right))
      )
      query.start()
      query.add {
        left.addData(logged("a" -> 100))
        right.addData(logged("c" -> 130))
      }: Unit
      query.add(right.addData(logged("c" -> 140))): Unit
      assert(StreamAccess.watermarkMs(query.streaming) * 1000 == time(90))
      query.add(left.addData(logged("a" -> 200))): Unit
      query.restart()
      query.add(left.addData(logged("a" -> 201))): Unit
      assert(StreamAccess.watermarkMs(query.streaming) * 1000 == time(130))
      query.add(right.addData(logged("c" -> 150))): Unit
      query.add(right.addData(logged("c" -> 150))): Unit
      // Spark forgets at a start what each watermark was; the left one has been at 191.
      assert(StreamAccess.watermarkMs(query.streaming) * 1000 == time(140))
    }
  }

  test("the node that ends a batch is no watermark that Spark, windows and stamps would find") {
    val frame = spark.readStream.format("rate").load()
    val side = progress(SyncSide.Left, frame, Seq("value"), "timestamp", Settings)
    assert(Synced.of(side, Settings).collect { case w: EventTimeWatermark => w }.isEmpty)
  }

  test("both sides may be one frame") {
    import spark.implicits._
    withDirectory { checkpoint =>
      val stream = MemoryStream[Logged](spark)
      val frame = stream.toDF()
      val query = new Judged(checkpoint, Settings)(both(Settings, Seq("host"))(frame, frame))
      query.start()
      assert(query.add(stream.addData(logged("a" -> 100, "b" -> 90))) == SyncTimes(time(85), time(85)))
      assert(query.rows.asScala.values.flatten.size == 4)
    }
  }

  private def topics(checkpoint: File, settings: SyncSettings = Settings)(change: DataFrame => DataFrame) = {
    val left = new FakeTopics(s"left-${checkpoint.getName}")
    val right = new FakeTopics(s"right-${checkpoint.getName}")
    val columns = Seq("topic", "partition")
    val query = new Judged(checkpoint, settings)(
      both(settings, columns)(change(left.frame(spark)), change(right.frame(spark)))
    )
    (left, right, query)
  }

  private def at(second: Double): FakeRecord = FakeRecord("k", time(second), 0)

  test("Kafka's partitions count from when the topic has them until it doesn't") {
    withDirectory { checkpoint =>
      val (left, right, query) = topics(checkpoint)(identity)
      left.add("clicks", 0, at(100))
      right.add("views", 0, at(100))
      right.add("views", 1)
      query.start()
      query.streaming.processAllAvailable()
      assert(query.next.release == SyncTimes.Unknown)
      assert(query.waitsFor == Seq("right views-1 waiting"))
      assert(query.add(right.add("views", 1, at(90))).release == time(85))
      // A new one is known before it has given anything; a restart doesn't forget it.
      assert(query.add(right.add("views", 2)).release == time(85))
      query.restart()
      assert(query.add { right.add("views", 1, at(200)); right.add("views", 0, at(200)) }.release == time(85))
      assert(query.waitsFor == Seq("right views-2 waiting"))
      assert(query.add(right.remove("views", 2)).release == time(195))
      query.streaming.stop()
    }
  }

  test("a batch that a start runs again asks nothing of a source that Spark hasn't asked") {
    withDirectory { checkpoint =>
      val (left, right, query) = topics(checkpoint)(identity)
      left.add("clicks", 0, at(100))
      right.add("views", 0, at(100))
      right.add("views", 1, at(90))
      query.start()
      query.streaming.processAllAvailable()
      query.failing = true
      StreamAccess.betweenBatches(query.streaming) {
        left.add("clicks", 0, at(150))
        right.add("views", 0, at(200))
        right.add("views", 1, at(210))
      }
      assert(
        intercept[Exception](query.streaming.processAllAvailable()).getMessage.contains("as the test wants")
      )
      query.start()
      query.streaming.processAllAvailable()
      assert(query.next == SyncTimes(time(195), time(150)))
      // Which partitions there are was in the offsets.
      assert(query.add(right.add("views", 0, at(300))).release == time(205))
      query.streaming.stop()
    }
  }

  test("a sink that reads a part of a batch again changes nothing of what the batch has read") {
    withDirectory { checkpoint =>
      val (left, right, query) = memory(checkpoint)
      query.peeking = true
      query.start()
      val next = query.add {
        left.addData(logged("a" -> 10, "a" -> 50))
        right.addData(logged("c" -> 100))
      }
      assert(next == SyncTimes(time(95), time(50)))
      query.streaming.stop()
    }
  }

  test("what is idle has nothing to read, for too long if it has stalled; what is slow has") {
    withClock { (checkpoint, clock) =>
      val (left, right, query) = topics(checkpoint, Settings.copy(stallAfterMs = 2)) { frame =>
        frame
          .selectExpr("topic", "cast(partition AS STRING) AS partition", "at", "id + 1 AS id")
          .where("id > 0")
      }
      left.add("clicks", 0, at(1000))
      right.add("views", 0, at(100))
      right.add("views", 1, at(100))
      def rights = query.waitsFor.filter(_.startsWith("right"))
      query.start()
      query.streaming.processAllAvailable()
      query.add(right.add("views", 0, at(200))): Unit
      assert(rights == Seq("right views-1 idle"))
      query.add {
        right.stall("views", 1, Some(1))
        right.add("views", 1, at(210))
        right.add("views", 0, at(210))
      }: Unit
      clock.advance(5)
      query.add(right.add("views", 0, at(220))): Unit
      // There is something of it.
      assert(rights == Seq("right views-1 slow"))
      query.add {
        right.stall("views", 1, None)
        right.add("views", 1, at(220))
        right.add("views", 0, at(224))
      }: Unit
      assert(rights.isEmpty && query.next.release == time(215))
      clock.advance(5)
      query.add(right.add("views", 0, at(230))): Unit
      clock.advance(5)
      query.add(right.add("views", 0, at(231))): Unit
      assert(rights == Seq("right views-1 stalled"))
    }
  }

  test("two topics without the column topic are refused, before any row is out") {
    withDirectory { checkpoint =>
      val (left, right) = (new FakeTopics("merged-left"), new FakeTopics("merged-right"))
      left.add("clicks", 0, at(100))
      right.add("views", 0, at(100))
      right.add("looks", 0, at(50))
      val query = new Judged(checkpoint, Settings)(
        both(Settings, Seq("partition"))(left.frame(spark), right.frame(spark))
      )
      query.start()
      val (condition, parameters) = failureOf(query.streaming)
      assert(condition == "TAILRACE_SYNC_TOPICS_MERGED")
      assert(parameters == Map("name" -> "clicks", "side" -> "right", "topics" -> "looks, views"))
      assert(query.rows.isEmpty)
    }
  }

  test("names of partitions that values of several columns make are two when the values are") {
    import spark.implicits._
    withDirectory { checkpoint =>
      val left = MemoryStream[Logged](spark)
      val right = MemoryStream[Logged](spark)
      def frame(stream: MemoryStream[Logged]) =
        stream
          .toDF()
          .selectExpr("get(split(host, '/'), 0) AS zone", "get(split(host, '/'), 1) AS part", "at", "id")
      val query =
        new Judged(checkpoint, Settings)(both(Settings, Seq("zone", "part"))(frame(left), frame(right)))
      query.start()
      query.add {
        left.addData(logged("l/1" -> 100))
        right.addData(logged("eu/west-1" -> 100, "eu-west/1" -> 90, "a/null" -> 120, "a" -> 80))
      }: Unit
      assert(query.next.release == time(75))
      query.add(right.addData(logged("a" -> 110, "a/null" -> 111, "eu/west-1" -> 110))): Unit
      assert(query.next.release == time(85))
      assert(query.waitsFor == Seq("right eu-west-1 slow"))
    }
  }

  test("a partition whose rows are all filtered is waited for as long as one that stalls") {
    withClock { (checkpoint, clock) =>
      val (left, right, query) = topics(checkpoint, Settings.copy(stallAfterMs = 2))(_.where("id >= 0"))
      val filtered = FakeRecord("k", time(10), -1)
      def rights = query.waitsFor.filter(_.startsWith("right"))
      def add(second: Double, other: FakeRecord*): SyncTimes = {
        clock.advance(2)
        query.add { right.add("views", 0, at(second)); right.add("views", 1, other: _*) }
      }
      left.add("clicks", 0, at(100))
      right.add("views", 0, at(100))
      right.add("views", 1, filtered)
      query.start()
      query.streaming.processAllAvailable()
      assert(query.next.release == SyncTimes.Unknown && rights == Seq("right views-1 filtered"))
      // A batch counts a millisecond.
      assert(add(150, filtered).release == SyncTimes.Unknown)
      assert(add(200, filtered).release == time(195) && rights.isEmpty)
      query.restart()
      // What comes of it may be old, as long as it gives nothing.
      assert(add(300).release == time(195) && rights == Seq("right views-1 idle"))
      assert(add(301, filtered).release == time(296))
      assert(add(400, at(295)).release == time(296))
      assert(query.metrics.getSeq[Row](5) == Seq(Row("right", "views-1", 1L)))
      assert(add(500, filtered).release == time(296) && rights == Seq("right views-1 filtered"))
      query.streaming.stop()
    }
  }

  test("one clock far ahead doesn't move its partition further than the limit") {
    withDirectory { checkpoint =>
      val now = System.currentTimeMillis * 1000
      def near(minutes: Int) = FakeRecord("k", now + minutes * 60000000L, 0)
      val settings = Settings.copy(futureLimitMicros = Some(600000000L))
      val (left, right, query) = topics(checkpoint, settings)(identity)
      left.add("clicks", 0, near(0))
      right.add("views", 0, near(0))
      right.add("views", 1, near(-5), near(1000000))
      query.start()
      query.streaming.processAllAvailable()
      assert(query.next.release == Math.floorDiv(now, 1000) * 1000 - Settings.syncDelay)
      assert(query.metrics.getAs[Long]("futureRows") == 1)
      query.add { right.add("views", 0, near(60)); right.add("views", 1, near(60)) }: Unit
      // Each as far as the limit, and no further.
      assert(query.next.release < now + 660000000L && query.metrics.getAs[Long]("futureRows") == 2)
    }
  }

  test("a side that is several sources is waited for as far as its partitions were seen") {
    withDirectory { checkpoint =>
      val (left, right, query) = topics(checkpoint)(frame => frame.union(frame))
      left.add("clicks", 0, at(100))
      right.add("views", 0, at(100))
      right.add("views", 1)
      query.start()
      query.streaming.processAllAvailable()
      assert(query.next == SyncTimes(time(95), time(95)))
    }
  }
}

object SyncProgressStreamSuite {
  private val Settings = SyncSettings(
    name = "clicks",
    syncDelay = 5000000,
    window = 60000000,
    onStall = Policy.Pause,
    stallAfterMs = 600000,
    onDuplicate = Policy.Emit,
    emitsUnmatchedRight = false,
    maxPending = None
  )
}
