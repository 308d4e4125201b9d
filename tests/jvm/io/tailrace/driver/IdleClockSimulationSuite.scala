package io.tailrace.driver

import java.util.SplittableRandom

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.CampaignSuite

/** Random schedules of parts that give something or not, under a query that stops, sleeps, is killed before
  * it has committed a batch, and reads less than there is. What the rule says is compared with the whole
  * history, looked at from its end.
  *
  * `-Dtailrace.seed=` runs one of them again.
  */
final class IdleClockSimulationSuite extends AnyFunSuite with CampaignSuite {
  import IdleClockSimulationSuite._

  test("idle time is the time in which other parts gave rows, and no other time") {
    val seeds = sys.props.get("tailrace.seed").map(s => Seq(s.toLong)).getOrElse(1L to Schedules)
    val told = seeds.iterator.map(seed => new Schedule(seed).run()).toSeq
    if (seeds.size > 1) {
      // A simulation in which nothing happens proves nothing.
      assert(told.map(_.tooLong).sum > Schedules / 10 && told.map(_.restarts).sum > Schedules)
      assert(told.map(_.nights).sum > Schedules && told.map(_.crashes).sum > Schedules / 10)
    }
  }
}

object IdleClockSimulationSuite {
  private val Schedules = 20000L

  private final class Told {
    var tooLong, restarts, nights, crashes = 0L
  }

  /** A committed batch, as the world saw it.
    *
    * @param start in which start of the query
    */
  private final case class Happened(start: Int, atMs: Long, heard: Seq[Heard]) {
    def goesOn: Boolean = heard.contains(Heard.Yes)
  }

  private final class Schedule(seed: Long) {
    private val random = new SplittableRandom(seed)
    private def below(n: Int): Int = random.nextInt(n)
    private def oneIn(n: Int): Boolean = random.nextInt(n) == 0

    private val limit = 1L + below(if (oneIn(2)) 20 else 2000)
    private val parts = 1 + below(4)
    private val dead = Seq.fill(parts)(oneIn(3))
    private val marks = Array.fill(parts)(0L)
    private val history = mutable.ArrayBuffer.empty[Happened]
    private val told = new Told

    private var clock = new IdleClock(limit)
    private var start = 0
    private var now = below(1000) - 500L

    private def check(holds: Boolean, what: => String): Unit =
      if (!holds) throw new IllegalStateException(s"seed $seed: $what; limit $limit, $history")

    def run(): Told = {
      (0 until 10 + below(60)).foreach { _ =>
        pass()
        val heard = dead.map { isDead =>
          if (oneIn(12)) Heard.Unknown else if (isDead || oneIn(3)) Heard.No else Heard.Yes
        }
        val quiet = oneIn(5)
        val batch = Happened(start, now, if (quiet) heard.map(_ => Heard.No) else heard)
        if (oneIn(30)) {
          // All of it has happened but for being committed.
          val crashed = new IdleClock(limit, clock.nowMs)
          crashed.advance(batch.atMs, batch.goesOn): Unit
          restart()
          told.crashes += 1
        } else commit(batch)
      }
      told
    }

    private def pass(): Unit = below(20) match {
      case 0 =>
        now += limit * (1 + below(1000))
        told.nights += 1
      case 1 => restart()
      case _ => now += below(Math.max(2, Math.min(limit, 1000L).toInt))
    }

    private def restart(): Unit = {
      clock = new IdleClock(limit, clock.nowMs)
      start += 1
      // Another machine's clock.
      now = below(1000000) - 500000L
      told.restarts += 1
    }

    private def commit(batch: Happened): Unit = {
      val before = clock.nowMs
      val passed = clock.advance(batch.atMs, batch.goesOn)
      history += batch
      check(passed == clock.nowMs - before && passed <= clock.mostPerStepMs, s"$passed")
      (0 until parts).foreach { part =>
        marks(part) = clock.mark(marks(part), passed, batch.heard(part))
        judge(part)
      }
    }

    private def judge(part: Int): Unit = {
      val since = history.drop(history.lastIndexWhere(_.heard(part) == Heard.Yes) + 1)
      // Batches without the part in which others went on: each counts the time since the one before, in the
      // same start.
      val missing = since.filter(b => b.goesOn && b.heard(part) == Heard.No)
      val counts = missing.map(b => Math.max(0L, Math.min(clock.mostPerStepMs, b.atMs - stepBefore(b))))
      val idle = clock.since(marks(part))
      check(idle == counts.sum, s"part $part: $idle, and $counts")
      if (clock.isTooLong(marks(part))) {
        told.tooLong += 1
        check(missing.size >= Math.min(limit, IdleClock.Steps), s"too long after ${missing.size} batches")
      }
      if (since.isEmpty) check(idle == 0, s"part $part has just been heard")
    }

    private def stepBefore(batch: Happened): Long = {
      val at = history.lastIndexWhere(_ eq batch)
      val ofStart = history.take(at).filter(_.start == batch.start)
      ofStart.filter(_.goesOn).lastOption.orElse(ofStart.headOption).fold(batch.atMs)(_.atMs)
    }
  }
}
