package io.tailrace.windows

import java.util.concurrent.atomic.AtomicInteger

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import io.tailrace.common.{Policy, TailraceStateException}
import io.tailrace.testkit.{Campaign, TempDirectory, WatermarkServerStub}
import io.tailrace.watermark.{Completeness, ProgressSettings, Reporter, ServerSettings}

final class ClosingThreadSuite extends AnyFunSuite with TempDirectory {
  private val patient = timeout(Span(20, Seconds))
  private val often = interval(Span(50, Millis))

  test(
    "a server that refuses the query is asked once, and again by the next batch, before its rows land",
    Campaign
  ) {
    val server = new WatermarkServerStub().start()
    @volatile var runs = true
    // The thread asks before each of its rounds.
    val rounds = new AtomicInteger
    try {
      val at = ServerSettings(Seq(server.url), "my app", "windows", None)
      val path = new Path(directory.toURI)
      val settings = LandingSettings(
        path.toString,
        Windows(10, 0),
        "w",
        10,
        None,
        Seq(ProgressSettings("s", Completeness.Whole, 0, None, None, None, Policy.Clamp, None)),
        Some(SinkServer(at, Seq("clicks"), ofSources = true, isGiven = false))
      )
      val folder = WrittenFolders.open(path, settings, new Configuration, () => false)
      val reporter = new Reporter(at, "query-1", "run-1", () => runs)
      val closer = new WindowCloser(folder, settings, () => Some(reporter))
      folder.begin("query-1", 0)
      closer.begin(0)
      val isActive = () => {
        rounds.incrementAndGet()
        runs
      }
      new ClosingThread(path, closer, isActive, everyMs = 50).start()
      eventually(patient, often)(assert(server.reports.size > 3))
      server.conflict = Some("TAILRACE_WATERMARK_RUN_REPLACED")
      eventually(patient, often)(assert(server.refused == 1))
      val told = rounds.get
      eventually(patient, often)(assert(rounds.get > told + 20))
      assert(server.refused == 1)
      val error = intercept[TailraceStateException](closer.begin(0))
      assert(error.getCondition == "TAILRACE_WATERMARK_RUN_REPLACED" && server.refused == 2)
      server.conflict = None
      closer.begin(0)
      val before = server.reports.size
      eventually(patient, often)(assert(server.reports.size > before + 3))
    } finally {
      runs = false
      server.close()
    }
  }
}
