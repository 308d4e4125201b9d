package io.tailrace.ops.erase

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceStateException
import io.tailrace.join.JoinCheckpoint
import io.tailrace.testkit._

/** A query that is started while an erasure goes on, and fails before its first batch is through; and two erasures of
  * two processes.
  */
final class EraseRacesSuite extends SparkSuite {
  private val ids = (0 until 30).toSet

  /** Runs an erasure of ids that can be divided by three, and another one, of the next ids, at one of its steps.
    *
    * @return how many steps the first one has
    */
  private def twoAtOnce(at: Int): Int = withDirectory { d =>
    val h = new StreamHarness(spark, d)(NeverLate.query(NeverLate.options())).start()
    h.step(ids.toSeq.map(i => Served(s"k${i % 7}", Times.seconds(1.0 + i), i)), Nil)
    h.stop()
    var (erased, refused) = (Set.empty[Int], 0)
    def erase(rest: Int): Unit =
      try {
        new Erase(spark, d.getPath, EraseOptions(Some(s"id % 3 = $rest"))).runAlone(): Unit
        erased += rest
      } catch { case e: TailraceStateException if e.getCondition == "TAILRACE_STATE_IN_USE" => refused += 1 }
    val other = new OtherProcess(at)(erase(1))
    withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName)(WatchedFiles.watchedBy(other)(erase(0)))
    val expected = ids.filterNot(i => erased(i % 3))
    // The one that was refused may have turned over before: its rows are gone, too.
    val kept =
      spark.read
        .format("tailrace-state")
        .load(d.getPath)
        .selectExpr("left.id")
        .collect()
        .map(_.getInt(0))
        .toSet
    assert(kept.subsetOf(expected) && ids.filter(_ % 3 == 2).subsetOf(kept), s"at step $at")
    assert(erased.nonEmpty && (erased.size + refused == 2 || at > other.steps), s"at step $at")
    h.start()
    h.step(NeverLate.end._1, NeverLate.end._2)
    h.stop()
    assert(h.all.flatMap(_.id).toSet.intersect(ids) == kept, s"at step $at")
    other.steps
  }

  Campaign.sizes(few = 3, more = 60).foreach { case (count, tags) =>
    test(s"two of them at once: one goes through, and the query goes on: $count steps", tags: _*) {
      val all = twoAtOnce(Int.MaxValue)
      val random = new Random(all.toLong)
      Seq.fill(count)(1 + random.nextInt(all)).foreach(twoAtOnce(_): Unit)
    }
  }

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
