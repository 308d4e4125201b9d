package io.tailrace.erase

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.tailrace.api.Tailrace
import io.tailrace.join.JoinCheckpoint
import io.tailrace.testkit._

/** A query is started while an erasure goes on, and fails before its first batch is through. */
final class EraseRacesSuite extends SparkSuite {

  test("what a start has noted meanwhile stays") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(NeverLate.query(NeverLate.options())).start()
      val (served, engaged) = NeverLate.batch(0, new Random(1))
      h.step(served, engaged)
      h.stop()
      val (join, conf) = (new Path(d.getPath, "state/0"), new Configuration)
      def noted = JoinCheckpoint.read(join, conf, 1)
      var starts = 0
      val start: WatchedFiles.Watcher = (step, path) =>
        if (step == FileStep.Renamed && path.getParent.getName == "offsets") {
          starts += 1
          JoinCheckpoint.write(join, conf, noted.copy(sources = Seq("clicks"))): Unit
        }
      withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName) {
        WatchedFiles.watchedBy(start) {
          Tailrace.erase(spark, d.getPath, EraseOptions(Some("id >= 0"))): Unit
        }
      }
      assert(starts == 1)
      assert(noted.sources == Seq("clicks") && noted.layouts.size == 1)
    }
  }
}
