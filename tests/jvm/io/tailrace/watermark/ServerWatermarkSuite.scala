package io.tailrace.watermark

import java.io.File

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.streaming._
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Millis, Seconds, Span}

import io.tailrace.testkit.LoggedStream.logged
import io.tailrace.testkit.{LoggedStream, WatermarkServerStub}

/** Queries whose watermark of hosts a watermark server decides. */
final class ServerWatermarkSuite extends HostsWatermarkSuite {
  private val patient = timeout(Span(30, Seconds))
  private val often = interval(Span(100, Millis))

  test("the server's low watermark counts; while it is away the watermark stays and the query goes on") {
    withClock { (directory, clock) =>
      val server = new WatermarkServerStub().start()
      try {
        val stream = counting(
          directory,
          whole.copy(server = Some(server.url), app = Some("my app")),
          clock = Some(clock)
        )
        assert(stream.add(logged("a" -> 20, "b" -> 20, "a" -> 1)) == Nil)
        // Another query of the application has read less.
        server.low = Some((LoggedStream.Noon + 5) * 1000000)
        assert(stream.add(logged("a" -> 21)) == Nil)
        assert(stream.watermark == 4.999)
        server.close()
        assert(stream.add(logged("a" -> 22, "b" -> 22)) == Nil)
        stream.restart()
        assert(stream.add(logged("a" -> 23)) == Nil)
        assert(stream.watermark == 4.999)
        server.low = Some((LoggedStream.Noon + 15) * 1000000)
        server.start()
        clock.advance(1200)
        assert(stream.add(logged("b" -> 23)) == Seq(window(0, 1)))
        val back = server.reports.filter(_.get("run").asText == stream.streaming.runId.toString)
        val last = back.map(server.progress).reduce(_ ++ _)
        assert(
          last == Map("a" -> (LoggedStream.Noon + 23) * 1000000, "b" -> (LoggedStream.Noon + 23) * 1000000)
        )
      } finally server.close()
    }
  }

  test(
    "a query ends before its first row if another one reports its sources, and also if it is replaced"
  ) {
    withDirectory { directory =>
      val server = new WatermarkServerStub().start()
      try {
        server.conflict = Some("TAILRACE_WATERMARK_REPORTER_CONFLICT")
        val stream =
          counting(directory, whole.copy(server = Some(server.url), app = Some("my app")), flat = true)
        intercept[StreamingQueryException](stream.add(logged("a" -> 1, "b" -> 1)))
        assert(failureOf(stream.streaming)._1 == "TAILRACE_WATERMARK_REPORTER_CONFLICT")
        assert(stream.all == Nil)
        server.conflict = None
        stream.start()
        stream.add(logged("a" -> 2))
        val runs = server.reports.map(_.get("run").asText)
        assert(runs.distinct == Seq(stream.streaming.runId.toString))
        assert(server.reports.map(_.get("client").asText).distinct == Seq(stream.streaming.id.toString))
        assert(
          server.reports.head.at("/operators/0/unread").asBoolean,
          "before its first batch it has read nothing"
        )
        assert(server.reports.forall(_.at("/operators/0/reads/0").asText.startsWith("MemoryStream")))
        server.conflict = Some("TAILRACE_WATERMARK_RUN_REPLACED")
        intercept[StreamingQueryException](stream.add(logged("a" -> 3)))
        assert(failureOf(stream.streaming)._1 == "TAILRACE_WATERMARK_RUN_REPLACED")
        server.conflict = None
        stream.start().streaming.stop()
      } finally server.close()
    }
  }

  test("a quiet query reports its last rows when the server is back, without another micro-batch") {
    withDirectory { directory =>
      val server = new WatermarkServerStub().start()
      try {
        val stream = counting(directory, whole.copy(server = Some(server.url), app = Some("my app")))
        stream.add(logged("a" -> 1, "b" -> 1))
        server.close()
        stream.add(logged("a" -> 12, "b" -> 13))
        val batch = stream.streaming.lastProgress.batchId
        server.start()
        def last = server.reports.last
        eventually(patient, often) {
          assert(server.progress(last) == Map("a" -> micros(12), "b" -> micros(13)))
        }
        assert(stream.streaming.lastProgress.batchId == batch)
        assert(last.path("batches").asLong == batch + 1)
        val operators = last.path("operators").elements.asScala.map(_.path("kind").asText).toSeq
        assert(operators == Seq("source", "operator", "sink"))
        stream.streaming.stop()
      } finally server.close()
    }
  }

  private def micros(second: Long): Long = (LoggedStream.Noon + second) * 1000000

  test("a roster with other hosts than before is logged") {
    withDirectory { directory =>
      val stream = counting(directory, whole)
      stream.add(logged("a" -> 1, "b" -> 1))
      val file = new File(directory, "tailrace-watermark/watermark/0.snapshot").toPath
      val read =
        ProgressFile.decode(java.nio.file.Files.readAllBytes(file), "f", "watermark/0", new HostTable)
      val version = java.security.MessageDigest.getInstance("SHA-256").digest("a\nb".getBytes).take(8)
      assert(read.roster.contains(java.util.HexFormat.of.formatHex(version)))
    }
  }
}
