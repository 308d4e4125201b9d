package io.tailrace.watermark

import java.io.File

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.tailrace.StreamAccess
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Millis, Seconds, Span}

import io.tailrace.api.Tailrace
import io.tailrace.common.SparkWatermark
import io.tailrace.label.JoinOptions
import io.tailrace.recursion.RecursionOptions
import io.tailrace.testkit.LoggedStream.{at, logged}
import io.tailrace.testkit.{Logged, LoggedStream, ManualClock, SlowSuite, WatermarkServerStub}

/** Queries that have nothing to read while the low watermark at the server moves. */
final class IdleSourceSuite extends HostsWatermarkSuite with SlowSuite {
  private val patient = timeout(Span(30, Seconds))
  private val often = interval(Span(50, Millis))

  private def micros(second: Double): Long = at(second).getTime * 1000

  /** With a server, and with a clock for queries that the test moves. */
  private def withServer(body: (WatermarkServerStub, File, ManualClock) => Unit): Unit =
    withClock { (directory, clock) =>
      val server = new WatermarkServerStub().start()
      try body(server, directory, clock)
      finally {
        spark.streams.active.foreach(_.stop())
        server.close()
      }
    }

  /** Waits until something is so, while the clock goes on. */
  private def await(clock: ManualClock)(check: => Any): Unit = eventually(patient, often) {
    clock.advance(1000)
    check
  }: Unit

  private def asking(server: WatermarkServerStub, name: String = "watermark") =
    whole.copy(server = Some(server.url), app = Some("my app"), operator = Some(name), name = name)

  private val rows = logged("a" -> 1, "b" -> 2, "a" -> 12, "b" -> 13, "a" -> 25, "b" -> 26)

  test("windows close when the server's low watermark moves, without another row") {
    withServer { (server, directory, clock) =>
      val stream = counting(directory, asking(server), clock = Some(clock))
      server.low = Some(micros(5))
      assert(stream.add(rows) == Nil)
      // Another query of the operator catches up.
      server.low = Some(micros(15))
      await(clock)(assert(stream.all == Seq(window(0, 2))))
      await(clock)(assert(stream.metrics().getAs[Any]("lowWatermark") == at(15)))
      server.low = Some(micros(24))
      await(clock)(assert(stream.all == Seq(window(0, 2), window(10, 2))))
      // Rows are late by it, and are counted.
      server.low = Some(micros(41))
      assert(stream.add(logged("a" -> 19, "a" -> 41, "b" -> 42)).contains(window(20, 2)))
      assert(stream.all == Seq(window(0, 2), window(10, 2), window(20, 2)))
      assert(lateRows(stream) == 1)
      assert(server.reports.forall(r => server.progress(r).isEmpty || r.has("batches")))
    }
  }

  test(
    "a query without state reports each ten seconds what it has, in place of heartbeats, and runs no batch"
  ) {
    withServer { (server, directory, clock) =>
      val stream = counting(directory, asking(server), flat = true, clock = Some(clock))
      server.low = Some(micros(5))
      stream.add(rows)
      val (reported, beats, begun) = (server.reports.size, server.others.size, clock.nanos)
      server.low = Some(micros(15))
      await(clock)(assert(server.reports.size >= reported + 3))
      assert(clock.nanos - begun >= 30L * 1000 * 1000 * 1000)
      assert(server.others.size == beats)
      assert(stream.metrics().getAs[Any]("lowWatermark") == at(5))
    }
  }

  test("the server is asked each second, less often after long micro-batches and if all rows are passed") {
    def pause(low: Double, batchMs: Long) = SourceWatermark.pauseMs(micros(low), micros(20), batchMs)
    assert(pause(19, 10) == 1000 && pause(19, 500) == 4500 && pause(19, 60000) == 10000)
    assert(pause(20, 10) == 10000)
    assert(SourceWatermark.pauseMs(SparkWatermark.Never, micros(20), 0) == 1000)
    assert(SourceWatermark.pauseMs(SparkWatermark.Never, SparkWatermark.Never, 0) == 10000)
  }

  test("the watermark doesn't go beyond the query's other streams by the policy min, and does by max") {
    Seq("min", "max").foreach { policy =>
      withConf("spark.sql.streaming.multipleWatermarkPolicy" -> policy)(withServer {
        (server, directory, clock) =>
          val stream = new LoggedStream(spark, directory, sources = 2, clock = Some(clock))({ in =>
            counts(watermark(asking(server))(in.head).union(in(1).withWatermark("at", "0 seconds")))
          }).start()
          server.low = Some(micros(5))
          stream.add(rows, logged("c" -> 12))
          val first = if (policy == "min") Nil else Seq(window(0, 2))
          assert(stream.all == first)
          server.low = Some(micros(26))
          val closed = if (policy == "min") Seq(window(0, 2)) else Seq(window(0, 2), window(10, 3))
          await(clock)(assert(stream.all == closed))
          await(clock) {
            assert(stream.watermark == (if (policy == "min") 12.0 else 25.999))
          }
      })
    }
  }

  test("two sources that ask move the watermark of a join, and of what is behind it") {
    withServer { (server, directory, clock) =>
      val stream = new LoggedStream(spark, directory, sources = 2, clock = Some(clock))({ in =>
        val clicks = watermark(asking(server, "clicks"))(in.head)
        val views = watermark(asking(server, "views"))(in(1)).toDF("rhost", "rat", "rid")
        val options = JoinOptions(leftTime = "at", rightTime = "rat", after = "2 seconds")
        counts(Tailrace.join(clicks, views, Seq("id" -> "rid"), options))
      }).start()
      server.low = Some(micros(5))
      assert(stream.add(rows, rows) == Nil)
      server.low = Some(micros(26))
      await(clock)(assert(stream.all.toSet == Set(window(0, 2), window(10, 2))))
      assert(stream.all.size == 2)
    }
  }

  test("a watermark that follows others, that of a recursion, moves too") {
    withServer { (server, directory, clock) =>
      val stream = new LoggedStream(spark, directory, clock = Some(clock))({ in =>
        val options = RecursionOptions(mode = "feedback")
        counts(Tailrace.recursively(watermark(asking(server))(in.head), options) { rows =>
          rows.filter("id < 3").select(col("host"), col("at"), (col("id") + 1).as("id"))
        })
      }).start()
      server.low = Some(micros(5))
      assert(stream.add(Seq(Logged("a", at(1), 0), Logged("a", at(25), 9), Logged("b", at(26), 9))) == Nil)
      server.low = Some(micros(15))
      await(clock)(assert(stream.all == Seq(window(0, 3))))
    }
  }

  test("without micro-batches that have no rows, the watermark counts in the next one") {
    withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> false)(withServer {
      (server, directory, clock) =>
        val stream = counting(directory, asking(server), clock = Some(clock))
        server.low = Some(micros(5))
        assert(stream.add(rows) == Nil)
        val batch = stream.streaming.lastProgress.batchId
        server.low = Some(micros(15))
        await(clock)(assert(watermarkOfNext(stream) == 14.999))
        assert(stream.all == Nil && stream.streaming.lastProgress.batchId == batch)
        assert(stream.add(logged("a" -> 27, "b" -> 27)) == Seq(window(0, 2)))
    })
  }

  test("a micro-batch that the server's answer has started runs again after a crash with the same rows") {
    withServer { (server, directory, clock) =>
      val stream = counting(directory, asking(server), clock = Some(clock))
      server.low = Some(micros(5))
      assert(stream.add(rows) == Nil)
      stream.failNext()
      server.low = Some(micros(15))
      await(clock)(assert(!stream.streaming.isActive))
      intercept[StreamingQueryException](stream.streaming.awaitTermination())
      assert(stream.all == Seq(window(0, 2)))
      // Only the checkpoint knows what the server has said.
      server.close()
      stream.start()
      assert(stream.add(logged("a" -> 9, "b" -> 31, "a" -> 31)) == Nil)
      assert(stream.all == Seq(window(0, 2)))
      assert(lateRows(stream) == 1)
      server.low = Some(micros(31))
      server.start()
      await(clock) {
        assert(stream.all == Seq(window(0, 2), window(10, 2), window(20, 2)))
      }
    }
  }

  /** The late rows of all batches of this start. */
  private def lateRows(stream: LoggedStream): Long = stream.streaming.recentProgress
    .filter(_.observedMetrics.containsKey("tailrace.watermark"))
    .distinctBy(_.batchId)
    .map(_.observedMetrics.get("tailrace.watermark").getAs[Long]("lateRows"))
    .sum

  /** Spark's watermark for the next batch, in seconds from noon. */
  private def watermarkOfNext(stream: LoggedStream): Double =
    (StreamAccess.nextWatermarkMs(stream.streaming) -
      LoggedStream.Noon * 1000) / 1000.0
}
