package io.tailrace.sync

import java.io.File
import java.sql.Timestamp

import scala.util.Random

import io.tailrace.common.TailraceConf
import io.tailrace.testkit.Times.{micros, microsOf}
import io.tailrace.testkit._

/** Streams whose left rows are released by silence alone, against the brute force of the synced join: the first right
  * partition never goes on.
  */
final class IdleSyncPropertySuite extends SparkSuite with SlowSuite {
  private val limit = 60L * 60 * 1000

  private def run(seed: Int): Unit = withClock { (directory: File, clock: ManualClock) =>
    val random = new Random(seed * 7919L + 42)
    def oneOf[T](values: T*): T = values(random.nextInt(values.size))
    val (window, delay) = (oneOf(0L, 20L), oneOf(0L, 5L, 30L))
    val emits = random.nextBoolean()
    val oneToOne = random.nextBoolean()
    val onDuplicate = oneOf("emit", "drop", "mark")
    val o = IdleSyncSuite.options.copy(
      window = s"$window microseconds",
      syncDelay = s"$delay microseconds",
      onUnmatchedRight = if (emits) "emit" else "drop",
      onDuplicate = onDuplicate,
      oneToOne = oneToOne,
      idleTimeout = Some("1 hour")
    )
    val oracle = new SyncOracle(window, delay, onDuplicate, emits, oneToOne)
    val slack = Math.max(0, delay - window)
    withConf(
      "spark.sql.shuffle.partitions" -> 1,
      TailraceConf.BatchBufferBytes.key -> oneOf(1, 1 << 20),
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> oneOf(1, 2)
    ) {
      val h = new StreamHarness(spark, directory, Some(clock))(IdleSyncSuite.join(o)).start()
      // All rows come after it.
      var release = Option.empty[Long]
      var id = 0
      var newest = Long.MinValue

      def expected(left: Seq[Served], right: Seq[Engaged]): Seq[SyncOut] = {
        val lefts = left.map(row => SyncRow(Some(row.k), Some(microsOf(row.t)), row.id))
        val rights = right.map(row => SyncRow(Some(row.k), Some(microsOf(row.rt)), row.rid))
        newest = (lefts ++ rights).flatMap(_.time).foldLeft(newest)(_ max _)
        val (out, alone) = oracle.batch(release, release.map(_ - slack), lefts, rights)
        (out ++ alone).sortBy(_.toString)
      }
      def found(batches: Seq[Seq[Emitted]]): Seq[SyncOut] =
        batches.flatten.map(e => SyncOut(Some(e.key), e.id, e.labels.headOption, e.mark)).sortBy(_.toString)
      def syncTime: Long = h.streaming.recentProgress.reverseIterator
        .flatMap(p => Option(p.observedMetrics.get("tailrace.syncJoin")))
        .map(row => microsOf(row.getAs[Timestamp]("syncTime")))
        .next()

      val stuck = Engaged("nobody", micros(-1000), 0)
      assert(found(h.step(Nil, Seq(stuck))) == expected(Nil, Seq(stuck)))
      release = Some(microsOf(stuck.rt) - delay)
      (0 until 12).foreach { step =>
        if (random.nextInt(4) == 0) h.restart()
        def time() = micros(step * 10L + random.nextInt(40))
        val left = Seq.fill(random.nextInt(5)) { id += 1; Served(oneOf("a", "b", "c"), time(), id) }
        val right = Seq.fill(1 + random.nextInt(4)) { id += 1; Engaged(oneOf("a", "b", "c"), time(), id) }
        assert(found(h.step(left, right)) == expected(left, right), s"seed $seed, step $step")
        if (step == 11 || random.nextInt(3) == 0) {
          val lefts = oracle.bufferedLeft.flatMap(_.time)
          val rights = if (emits) oracle.bufferedRight.flatMap(_.time).map(_ + window + delay) else Nil
          val quiet = (1 to 8).flatMap { _ =>
            clock.advance(limit / 8)
            h.settle().map(_.map(Emitted.of))
          }
          // Of rows that have left their section, too.
          if (lefts.nonEmpty || rights.nonEmpty) {
            val now = syncTime
            assert(now >= release.get.max((lefts ++ rights).max + 1), s"seed $seed, step $step")
            assert(
              now <= release.get.max(newest + 1 + (if (emits) window + delay else 0)),
              s"seed $seed, step $step"
            )
            release = Some(now)
          }
          assert(found(quiet) == expected(Nil, Nil), s"seed $seed, silence after step $step")
          assert(oracle.bufferedLeft.isEmpty && (!emits || oracle.bufferedRight.isEmpty))
        }
      }
      assert(h.changed.isEmpty)
    }
  }

  Campaign.sizes(3, 60).foreach { case (count, tags) =>
    test(
      s"rows that a silence flushes, and those after it, are those of brute force: $count seeds",
      tags: _*
    ) {
      (0 until count).foreach(run)
    }
  }
}
