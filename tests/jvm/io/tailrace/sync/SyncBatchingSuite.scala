package io.tailrace.sync

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{Policy, Side}
import io.tailrace.testkit.{Campaign, CampaignSuite, SyncOut, SyncRow}

/** The output depends on the data only: the same rows, cut into batches and read at speeds of three kinds,
  * give the same output. `TAILRACE_FAULTS=<seeds>` makes it long.
  */
final class SyncBatchingSuite extends AnyFunSuite with SyncFixture with CampaignSuite {
  import SyncBatchingSuite._

  private def oneOf[T](random: Random)(values: T*): T = values(random.nextInt(values.size))

  /** All that comes out of two logs, and how many rows were counted as possibly missed or late.
    *
    * @param cut how many rows of the left and the right log the next batch reads, at least
    */
  private def run(settings: SyncSettings, logs: Logs)(cut: () => (Int, Int)): Result = {
    emptyDirectory()
    val provider = newProvider()
    val rules = new SyncPartitions(settings)
    val out = mutable.ArrayBuffer.empty[SyncOut]
    var version, left, right = 0
    var counted = 0L
    def batch(times: SyncTimes, lefts: Seq[SyncRow], rights: Seq[SyncRow]): Unit = {
      out ++= runBatch(open(provider, version.toLong), settings, times, lefts, rights).get.out
      version += 1
      def read(rows: Seq[SyncRow], side: Side) =
        if (rows.isEmpty) Nil
        else {
          val before = rules.side(side).partitions.find(_.name == side.name).map(_.latest)
          val reading = new PartitionReading(
            side.name,
            before.getOrElse(SyncTimes.Unknown),
            settings.syncDelay,
            rules.lateBefore(side),
            rules.missedBefore(side)
          )
          rows.foreach(row => reading.see(row.time.get))
          counted += reading.read.jumps + reading.read.late
          Seq(reading.read)
        }
      val all = SideBatch(read(lefts, Side.Left), None)
      rules.advance(all, SideBatch(read(rights, Side.Right), None), 0)
    }
    while (left < logs.left.size || right < logs.right.size) {
      val (moreLeft, moreRight) = cut()
      val (nextLeft, nextRight) = (left + moreLeft, right + moreRight)
      batch(rules.times, logs.left.slice(left, nextLeft), logs.right.slice(right, nextRight))
      left = nextLeft
      right = nextRight
    }
    batch(rules.times, Nil, Nil)
    batch(SyncTimes(Long.MaxValue, Long.MaxValue), Nil, Nil)
    Result(out.toSeq.sortBy(_.toString), counted)
  }

  private def three(random: Random, settings: SyncSettings, logs: Logs): Seq[Result] = Seq(
    () => (1000, 1000),
    () => (1 + random.nextInt(3), 1 + random.nextInt(3)),
    // One side runs ahead of the other by far.
    () =>
      if (random.nextInt(4) == 0) (random.nextInt(30), random.nextInt(3))
      else (random.nextInt(3), random.nextInt(30))
  ).map(cut => run(settings, logs)(cut))

  private def settingsOf(random: Random, onDuplicate: Policy): SyncSettings = settings(
    window = oneOf(random)(0L, 3L, 20L),
    onDuplicate = onDuplicate,
    emitsUnmatchedRight = true,
    syncDelay = oneOf(random)(0L, 2L, 10L, 40L)
  )

  test("with unique ids and jumps within the sync delay, all cuts into batches give the same rows") {
    Campaign.seeds(short = 4).foreach { seed =>
      val random = new Random(seed)
      val s = settingsOf(random, Policy.Emit)
      val jump = random.nextInt(s.syncDelay.toInt + 1)
      val near = s.syncDelay.toInt - jump
      val reach = Math.min(s.window, s.syncDelay)
      val pairs = (1 to 60).map { id =>
        val left = 100L + random.nextInt(150)
        val right = random.nextInt(3) match {
          case 0 => left + random.nextInt(near + 1)
          case 1 => left - random.nextInt(2 * s.window.toInt + 3)
          // Out of reach, however early it is read.
          case _ => left + reach + 1 + random.nextInt(20)
        }
        (id, left, right)
      }
      def log(rows: Seq[SyncRow]): Seq[SyncRow] =
        rows.map(r => (r.time.get + random.nextInt(jump + 1), r.id) -> r).sortBy(_._1).map(_._2)
      val logs = Logs(
        log(pairs.map { case (id, left, _) => SyncRow(Some(s"key $id"), Some(left), id) }),
        log(pairs.map { case (id, _, right) => SyncRow(Some(s"key $id"), Some(right), id) })
      )
      val expected = pairs.count { case (_, left, right) =>
        val apart = right - left
        apart >= -s.window && apart <= reach
      }
      three(random, s, logs).zipWithIndex.foreach { case (Result(out, _), n) =>
        withClue(s"seed $seed, batching $n, $s: ") {
          assert(out.count(o => o.left.isDefined && o.right.isDefined) == expected)
          assert(out.size == 60 + 60 - expected)
        }
      }
    }
  }

  test("with repeated ids and logs in order, all cuts give the same pairs; with emit, the same rows") {
    Campaign.seeds(short = 4).foreach { seed =>
      val random = new Random(seed)
      val onDuplicate = oneOf(random)(Policy.onDuplicate: _*)
      val s = settingsOf(random, onDuplicate)
      def log(): Seq[SyncRow] = Seq
        .tabulate(80)(id => SyncRow(Some(s"key ${random.nextInt(8)}"), Some(100L + random.nextInt(200)), id))
        .sortBy(_.time.get)
      val all = three(random, s, Logs(log(), log())).map { case Result(out, counted) =>
        assert(counted == 0)
        if (onDuplicate == Policy.Emit) out else out.filter(o => o.left.isDefined && o.right.isDefined)
      }
      withClue(s"seed $seed, $s: ")(assert(all.toSet.size == 1))
    }
  }

  test(
    "logs that jump back as far as they like: where two batchings differ, rows were counted in one of them"
  ) {
    var differ, same = 0
    Campaign.seeds(short = 5).foreach { seed =>
      val random = new Random(seed)
      val s = settingsOf(random, Policy.Emit)
      // By no more than the delay, which is no jump; but together with the distance of a pair it is more.
      val jump = random.nextInt(4) match {
        case 0 => 0
        case 1 | 2 => 1 + random.nextInt(Math.max(1, s.syncDelay.toInt))
        case _ => s.syncDelay.toInt + 1 + random.nextInt(2 * s.syncDelay.toInt + 3)
      }
      val reach = Math.min(s.window, s.syncDelay).toInt
      val pairs = (1 to 60).map { id =>
        val left = 100L + random.nextInt(150)
        val apart =
          if (random.nextBoolean()) reach - random.nextInt(reach / 2 + 1)
          else random.nextInt((s.window + s.syncDelay + 4).toInt) - s.window
        (id, left, left + apart)
      }
      def log(rows: Seq[SyncRow]): Seq[SyncRow] = {
        // The others are in order.
        def isBack = random.nextInt(3) == 0
        rows
          .map(r => (r.time.get + (if (isBack) random.nextInt(jump + 1) else 0), r.id) -> r)
          .sortBy(_._1)
          .map(_._2)
      }
      val logs = Logs(
        log(pairs.map { case (id, left, _) => SyncRow(Some(s"key $id"), Some(left), id) }),
        log(pairs.map { case (id, _, right) => SyncRow(Some(s"key $id"), Some(right), id) })
      )
      three(random, s, logs).combinations(2).foreach { both =>
        if (both.map(_.out).distinct.size > 1) {
          differ += 1
          withClue(s"seed $seed, jump $jump, $s: ")(assert(both.exists(_.counted > 0)))
        } else if (both.forall(_.counted == 0)) same += 1
      }
    }
    assert(differ > 0 && same > 0)
  }
}

private object SyncBatchingSuite {

  /** The rows that came out, and how many rows were counted as possibly missed or late. */
  final case class Result(out: Seq[SyncOut], counted: Long)

  /** In the order in which they are read. */
  final case class Logs(left: Seq[SyncRow], right: Seq[SyncRow])
}
