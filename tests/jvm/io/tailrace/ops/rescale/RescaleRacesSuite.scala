package io.tailrace.ops.rescale

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.TailraceStateException
import io.tailrace.testkit._

/** Two rescalings of a checkpoint at once, of two processes. */
final class RescaleRacesSuite extends RescaleSuite {

  private def unlessInUse(body: => Unit): Unit =
    try body
    catch { case e: TailraceStateException if e.getCondition == "TAILRACE_STATE_RESCALE_IN_USE" => () }

  Seq("lazy join, format 2", "eager join, format 1").foreach { name =>
    test(s"two of them at once: one wins, and the query goes on ($name)", Campaign) {
      val (query, archive) = joins.filter(_._1.name == name).last
      def steps(at: Int): Int = {
        var steps = 0
        withQuery(query, archive) { (root, left) =>
          def rescaled(number: Int) = new Rescale(spark, checkpoint(root), number).runAlone(): Unit
          val other = new OtherProcess(at)(unlessInUse(rescaled(8)))
          withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName) {
            unlessInUse(WatchedFiles.watchedBy(other)(rescaled(4)))
          }
          if (isInTurn(root)) rescale(root, 4): Unit
          assert(query.goOn(spark, root, left.before) == left.whole, s"at step $at")
          steps = other.steps
        }
        steps
      }
      val all = steps(Int.MaxValue)
      val random = new Random(all.toLong)
      Campaign.seeds(short = 4).foreach(_ => steps(1 + random.nextInt(all)): Unit)
    }
  }

  /** When the first one has turned over, a second one begins, and dies when it has named its directories. */
  private final class DiesBehindTheTurn(body: => Unit) extends WatchedFiles.Watcher {
    private var isOther = false
    var hasRun = false

    override def apply(step: FileStep, path: Path): Unit =
      if (isOther && step == FileStep.Renamed && path.getName == "tailrace-join.json") throw new InjectedFault
      else if (!hasRun && step == FileStep.Renamed && path.getParent.getName == "offsets") {
        hasRun = true
        isOther = true
        try body
        catch { case _: Exception => () }
        finally isOther = false
      }
  }

  test("a turn stays when another rescaling that has begun since dies", Campaign) {
    val (query, archive) = joins.filter(_._1.name == "eager join, format 1").last
    withQuery(query, archive) { (root, left) =>
      def rescaled(number: Int) = new Rescale(spark, checkpoint(root), number).runAlone(): Unit
      val other = new DiesBehindTheTurn(rescaled(8))
      withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName) {
        unlessInUse(WatchedFiles.watchedBy(other)(rescaled(4)))
      }
      assert(other.hasRun)
      if (isInTurn(root)) rescale(root, 4): Unit
      assert(query.goOn(spark, root, left.before) == left.whole)
    }
  }

  test("a checkpoint whose offset log names a number that has no state is rescaled", Campaign) {
    val (query, archive) = joins.filter(_._1.name == "eager join, format 1").last
    withQuery(query, archive) { (root, left) =>
      rescale(root, 4): Unit
      // As of two rescalings that have died beside each other.
      val log = new SparkCheckpoint(new Path(checkpoint(root)), new Configuration)
      log.setPartitions(log.begunBatches.last, 3)
      rescale(root, 8): Unit
      assert(query.goOn(spark, root, left.before) == left.whole)
    }
  }
}
