package io.tailrace.sync

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.tailrace.{MemoryStream, StreamAccess}

import io.tailrace.common.Side
import io.tailrace.testkit.LoggedStream.logged
import io.tailrace.testkit.{FakeRecord, FakeTopics, Logged, LoggedStream}

/** How the batches of a query are judged. */
final class SyncProgressStreamSuite extends SyncProgressQuerySuite {
  import SyncProgressQuerySuite._

  test("a batch is judged by the times before it, also when it runs again in the next start") {
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
      assert(query.heldBackBy == Seq("right c slow"))

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

  test("rows that jump back too far or come too late are counted for their partition") {
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

  test("rows without a time don't count, and rows without a partition count as one partition") {
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

  test("the query's own watermark is the same as without the join's progress") {
    import spark.implicits._
    withDirectory { checkpoint =>
      val left = MemoryStream[Logged](spark)
      val right = MemoryStream[Logged](spark)
      def watermarked(stream: MemoryStream.Of[Logged]) = stream.toDF().withWatermark("at", "10 seconds")
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

  test("Spark, windows and stamps don't take the node that ends a batch for a watermark") {
    val frame = spark.readStream.format("rate").load()
    val side = progress(Side.Left, frame, Seq("value"), "timestamp", Settings)
    assert(Synced.of(side, Settings).collect { case w: EventTimeWatermark => w }.isEmpty)
  }

  test("both sides may be the same DataFrame") {
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

  test("a batch that a start runs again doesn't ask a source that Spark hasn't asked") {
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

  test("a sink that reads a part of a batch again doesn't change the progress") {
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

  test("two topics without the column topic are refused before any row comes out") {
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

  test("partitions with different values of several columns have different names") {
    import spark.implicits._
    withDirectory { checkpoint =>
      val left = MemoryStream[Logged](spark)
      val right = MemoryStream[Logged](spark)
      def frame(stream: MemoryStream.Of[Logged]) =
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
      assert(query.heldBackBy == Seq("right eu-west-1 slow"))
    }
  }

  test("a row far ahead of the clock doesn't move its partition beyond the limit") {
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

  test("of a side with several sources, the join waits for the partitions that it has seen") {
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
