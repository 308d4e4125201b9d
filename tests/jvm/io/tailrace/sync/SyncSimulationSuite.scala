package io.tailrace.sync

import java.util.concurrent.atomic.AtomicLong
import java.util.concurrent.{Callable, Executors}

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.CampaignSuite

/** A million random schedules of the rules that a synced join goes by. A failure names its seed;
  * `-Dtailrace.seed=` runs that one again.
  */
final class SyncSimulationSuite extends AnyFunSuite with CampaignSuite {
  import SyncSimulationSuite._

  test(
    "no match is lost that the rules promise, each left row comes out once, nothing goes back, nothing hangs"
  ) {
    sys.props.get("tailrace.seed") match {
      case Some(seed) => new SyncSimulation(seed.toLong).run(): Unit
      case None =>
        val seen = all()
        assert(seen.matched > Schedules && seen.lost > 0 && seen.restarts > 0 && seen.crashes > 0)
        assert(seen.finished > 0 && seen.removed > 0)
        assert(seen.conditions.map(_.name) == Conditions)
    }
  }

  private def all(): SyncSimulation.Seen = {
    val next = new AtomicLong
    val threads = Executors.newFixedThreadPool(2)
    val work: Callable[SyncSimulation.Seen] = () => {
      val seen = new SyncSimulation.Seen
      var from = next.getAndAdd(Chunk)
      while (from < Schedules) {
        (from until Math.min(from + Chunk, Schedules)).foreach(seed =>
          seen.add(new SyncSimulation(seed).run())
        )
        from = next.getAndAdd(Chunk)
      }
      seen
    }
    try {
      val halves = Seq.fill(2)(threads.submit(work)).map(_.get)
      val total = new SyncSimulation.Seen
      halves.foreach(total.add)
      total
    } finally threads.shutdownNow(): Unit
  }
}

object SyncSimulationSuite {
  private val Schedules = 1000000L
  private val Chunk = 1000L
  private val Conditions = Set("running", "slow", "stalled", "idle", "paused", "waiting", "excluded")
}
