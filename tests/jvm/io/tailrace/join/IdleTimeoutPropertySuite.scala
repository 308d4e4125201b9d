package io.tailrace.join

import java.io.File

import scala.collection.mutable
import scala.util.Random

import io.tailrace.common.TailraceConf
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.{micros, microsOf}
import io.tailrace.testkit._

/** Streams whose windows close by silence alone, against brute force: the watermark never comes. */
final class IdleTimeoutPropertySuite extends SparkSuite with SlowSuite {
  private val after = 20L
  private val limit = 60L * 60 * 1000

  /** What comes out of a join whose left rows wait for a silence. Times are microseconds. */
  private final class Simulation(before: Long) {
    private val waiting = mutable.ArrayBuffer.empty[Served]
    private val rights = mutable.ArrayBuffer.empty[Engaged]
    private var closed = Long.MinValue

    /** @return the rows that are late, as they come out */
    def step(served: Seq[Served], engaged: Seq[Engaged]): Set[Emitted] = {
      val (lateLefts, lefts) = served.partition(row => microsOf(row.t) <= closed)
      val (lateRights, inTime) = engaged.partition(row => microsOf(row.rt) + before <= closed)
      waiting ++= lefts
      rights ++= inTime
      lateLefts.map(row => Emitted(row.k, Some(row.id), Nil, mark = Some("late_left"))).toSet ++
        lateRights.map(row => Emitted(row.k, None, Seq(row.rid), mark = Some("late_right")))
    }

    def silence(): Set[Emitted] = {
      val out = waiting.map { left =>
        val t = microsOf(left.t)
        val found = rights.filter { right =>
          val rt = microsOf(right.rt)
          right.k == left.k && t - before <= rt && rt <= t + after
        }
        Emitted(left.k, Some(left.id), found.map(_.rid).sorted.toSeq)
      }
      if (waiting.nonEmpty) closed = Math.max(closed, waiting.map(row => microsOf(row.t)).max)
      waiting.clear()
      out.toSet
    }
  }

  // Rows of one time are in the order of their content, which brute force has no part in.
  private def unordered(rows: Iterable[Emitted]): Set[Emitted] =
    rows.map(row => row.copy(labels = row.labels.sorted)).toSet

  private def run(seed: Int): Unit = withClock { (directory: File, clock: ManualClock) =>
    val random = new Random(seed * 7919L + 17)
    val before = Seq(0L, 5L)(random.nextInt(2))
    val o = options(s"$after microseconds").copy(
      before = s"$before microseconds",
      onLate = "mark",
      idleTimeout = Some("1 hour"),
      releaseEvery = if (random.nextBoolean()) Some("batch") else None,
      lateLabels = Some(random.nextBoolean())
    )
    val simulation = new Simulation(before)
    withConf(
      "spark.sql.shuffle.partitions" -> (1 + random.nextInt(3)),
      TailraceConf.JoinStrategy.key -> Seq("lazy", "eager")(random.nextInt(2)),
      TailraceConf.BatchBufferBytes.key -> Seq(1, 1 << 20)(random.nextInt(2)),
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> (1 + random.nextInt(2))
    ) {
      // So far behind that it is before 1970, which is none.
      val h = new StreamHarness(spark, directory, Some(clock))(join(o, rightDelay = "1000000 hours")).start()
      var id = 0
      def time(step: Int) = micros(step * 10L + random.nextInt(40))
      def key() = Seq("a", "b")(random.nextInt(2))
      (0 until 12).foreach { step =>
        if (random.nextInt(4) == 0) h.restart()
        val served = Seq.fill(random.nextInt(4)) { id += 1; Served(key(), time(step), id) }
        val engaged = Seq.fill(1 + random.nextInt(4)) { id += 1; Engaged(key(), time(step), id) }
        val now = unordered(h.step(served, engaged).flatten)
        assert(now == simulation.step(served, engaged), s"seed $seed, step $step")
        if (step == 11 || random.nextInt(3) == 0) {
          val quiet = (1 to 8).flatMap { _ =>
            clock.advance(limit / 8)
            h.settle().flatten.map(Emitted.of)
          }
          assert(unordered(quiet) == simulation.silence(), s"seed $seed, silence after step $step")
          assert(quiet.size == unordered(quiet).size)
        }
      }
      assert(h.changed.isEmpty)
    }
  }

  Campaign.sizes(2, 40).foreach { case (count, tags) =>
    test(s"groups, and rows that come after a silence, are those of a simulation: $count seeds", tags: _*) {
      (0 until count).foreach(run)
    }
  }
}
