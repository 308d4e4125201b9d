package io.tailrace.sync

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.Policy
import io.tailrace.state.{KeptMemory, OwnStoreProvider, StoreKind}
import io.tailrace.testkit.{Campaign, SyncOut, SyncRow}

/** `one_to_one` of a synced join: pairs come out, and leave the state, in the batch that brings their second row. */
final class SyncOneToOneSuite extends AnyFunSuite with SyncFixture {
  private val second = 1000000L
  private val unknown = SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown)
  private val one = settings(oneToOne = true)

  private def at(key: String, seconds: Double, id: Int): SyncRow =
    SyncRow(Some(key), Some((seconds * second).round), id)

  private def times(release: Double, leftLow: Double): SyncTimes =
    SyncTimes((release * second).round, (leftLow * second).round)

  private def pair(key: String, left: Int, right: Int) = SyncOut(Some(key), Some(left), Some(right), None)
  private def alone(key: String, left: Int) = SyncOut(Some(key), Some(left), None, None)

  /** Batches one after the other. */
  private final class Partition(layout: SyncLayout = SyncLayout()) {
    var provider: OwnStoreProvider = newProvider()
    var version = 0L
    var settings: SyncSettings = one
    def batch(times: SyncTimes, left: Seq[SyncRow], right: Seq[SyncRow], bytes: Long = 64L << 20): Done = {
      val done = runBatch(open(provider, version), settings, times, left, right, bytes, layout = layout).get
      version += 1
      done
    }

    def sections(kind: StoreKind): Int = {
      val store = open(provider, version)
      try store.sectionsOf(kind).size
      finally store.abort()
    }
  }

  test("a pair comes out with its second row, whichever that is, and its rows are in the state no more") {
    val p = new Partition()
    val first = p.batch(unknown, Seq(at("a", 10, 1), at("b", 11, 2), at("c", 9, 3)), Seq(at("d", 10, 4)))
    assert(first.out.isEmpty && first.state == Map("held-left" -> 3, "held-right" -> 1))
    val left = p.batch(unknown, Seq(at("d", 10, 5)), Nil)
    assert(left.out == Seq(pair("d", 5, 4)) && left.state == Map("held-left" -> 3))
    val right = p.batch(unknown, Nil, Seq(at("b", 12, 6), at("e", 12, 7)))
    assert(right.out == Seq(pair("b", 2, 6)) && right.held.left == 2 && right.held.right == 1)
    assert(right.rows == 3 && right.state == Map("held-left" -> 2, "held-right" -> 1))
    assert(right.metrics(SyncMetrics.Matched) == 1)
    val both = p.batch(unknown, Seq(at("f", 13, 8)), Seq(at("f", 13, 9)))
    assert(both.out == Seq(pair("f", 8, 9)) && both.rows == 3)
    // The others come out by themselves when they are released, as without it.
    val last = p.batch(times(100, 100), Nil, Nil)
    assert(last.out.toSet == Set(alone("a", 1), alone("c", 3)) && last.state.isEmpty && last.files == 0)
    assert(last.metrics(SyncMetrics.UnmatchedLeft) == 2 && last.metrics(SyncMetrics.UnmatchedRight) == 1)
  }

  test("without it, they wait for the release time") {
    val p = new Partition()
    p.settings = settings()
    p.batch(unknown, Seq(at("a", 10, 1)), Nil): Unit
    assert(p.batch(unknown, Nil, Seq(at("a", 11, 2))).out.isEmpty)
  }

  test("rows out of reach don't match, before their time neither") {
    def out(left: Double, right: Double): Seq[SyncOut] = {
      emptyDirectory()
      val p = new Partition()
      p.batch(unknown, Seq(at("a", left, 1)), Nil): Unit
      p.batch(unknown, Nil, Seq(at("a", right, 2))).out
    }
    assert(out(left = 20, right = 10) == Seq(pair("a", 1, 2)))
    assert(out(left = 20, right = 25) == Seq(pair("a", 1, 2)))
    assert(out(left = 20, right = 9.999999).isEmpty && out(left = 20, right = 25.000001).isEmpty)
  }

  test("an executor that goes on, and one that begins with the version, know which left rows are out") {
    val p = new Partition()
    p.batch(unknown, (1 to 9).map(i => at(s"k$i", 10.0 + i, i)), Nil): Unit
    assert(p.batch(unknown, Nil, Seq(at("k3", 13, 13), at("k7", 17, 17))).out.size == 2)
    // Each makes the same version anew.
    def rest() =
      runBatch(open(p.provider, p.version), one, times(100, 100), Nil, Nil).get.out.flatMap(_.left).sorted
    assert(rest() == Seq(1, 2, 4, 5, 6, 8, 9))
    p.provider = newProvider()
    assert(rest() == Seq(1, 2, 4, 5, 6, 8, 9))
    // Nor does a second right row of a key find one.
    val again = p.batch(unknown, Nil, Seq(at("k3", 13, 23), at("k4", 14, 24)))
    assert(again.out == Seq(pair("k4", 4, 24)) && again.held.right == 1)
  }

  test("marks are there as long as their rows' sections, and go with them") {
    val p = new Partition(SyncLayout(bucketWidth = second, rowsPerBucket = 1))
    p.batch(unknown, (1 to 40).map(i => at(s"k$i", 10.0 + i / 10, i)), Nil): Unit
    p.batch(unknown, Nil, Seq(at("k1", 10, 101), at("k25", 12, 125))): Unit
    assert(p.sections(StoreKind.JoinedLeft) == 1)
    // The whole second of k1 leaves by its time, that of k25 by and by.
    p.batch(times(11, 0), Nil, Nil): Unit
    assert(p.sections(StoreKind.JoinedLeft) == 1)
    val rights = (20 to 29).filter(_ != 25).map(i => at(s"k$i", 12.0, 100 + i))
    val sections = p.sections(StoreKind.HeldLeft)
    assert(p.batch(times(11, 0), Nil, rights).out.size == 9)
    assert(p.sections(StoreKind.HeldLeft) == sections - 1, "a section of which all rows are out is gone")
    val end = p.batch(times(100, 100), Nil, Nil)
    assert(end.out.size == 21 && p.sections(StoreKind.JoinedLeft) == 0 && end.files == 0)
  }

  test("runs are carried forward without the rows that are out, and rows that wait are still found") {
    val p = new Partition(SyncLayout(mostRuns = 4))
    val dones = (1 to 30).map { i =>
      val fresh = (0 until 10).map(n => at(s"k$i-$n", i.toDouble, i * 100 + n))
      val due = (0 until 8).map(n => at(s"k${i - 1}-$n", i - 0.5, i * 100 + n))
      p.batch(unknown, fresh, due)
    }
    assert(dones.forall(_.files <= 4) && dones.map(_.metrics(SyncMetrics.CarriedRows)).sum > 0)
    assert(dones.drop(1).forall(_.out.size == 8) && dones.last.held.left == 29 * 2 + 10)
    p.provider = newProvider()
    val rights = for (i <- 1 to 29; n <- 8 to 9) yield at(s"k$i-$n", i.toDouble, i * 100 + n)
    val done = p.batch(unknown, Nil, rights)
    assert(done.out.map(o => o.left -> o.right).forall { case (l, r) => l == r } && done.out.size == 58)
    assert(done.held.left == 10)
  }

  test("a section is looked through once, and then only for right rows that it may have") {
    object Counting extends KeyHash {
      var count = 0
      override def ofBytes(base: AnyRef, at: Long, length: Int): Long = {
        count += 1
        KeyHash.XX64.ofBytes(base, at, length)
      }
    }
    // For all of them, and for none.
    for ((most, again) <- Seq(Long.MaxValue -> 20, 0L -> 3000)) {
      emptyDirectory()
      val kept = new KeptMemory(most)
      val provider = newProvider()
      def batch(version: Int, left: Seq[SyncRow], right: Seq[SyncRow]): (Seq[SyncOut], Int) = {
        Counting.count = 0
        val store = open(provider, version.toLong)
        val done = runBatch(store, one, unknown, left, right, hash = Counting, kept = kept).get
        (done.out, Counting.count)
      }
      val lefts = (0 until 3000).map(i => at(s"k$i", 10 + i / 1000.0, i))
      assert(batch(0, lefts, Nil)._1.isEmpty)
      assert(batch(1, Nil, Seq(at("other", 11, 1)))._2 >= 3000)
      val (out, asked) = batch(2, Nil, Seq(at("another", 11, 2)))
      assert(out.isEmpty && asked >= again / 20 && asked <= again + 20, s"$most: $asked")
      assert(
        batch(3, Nil, Seq(at("k7", 10, 3), at("k2999", 13, 4)))._1.map(_.left) == Seq(Some(2999), Some(7))
      )
    }
  }

  /** Ids that both sides have once, each pair in reach; some rows have no partner. */
  private final class Data(random: Random, ids: Int) {
    private val arrivals = mutable.LongMap.empty[mutable.ArrayBuffer[(Boolean, SyncRow)]]
    private def arrive(isLeft: Boolean, row: SyncRow): Unit =
      arrivals.getOrElseUpdate(random.nextInt(30).toLong, mutable.ArrayBuffer.empty) += isLeft -> row

    (0 until ids).foreach { id =>
      val time = 100 * second + random.nextInt(20000000)
      val kind = random.nextInt(8)
      if (kind > 0) arrive(isLeft = true, SyncRow(Some(s"key $id"), Some(time), id))
      if (kind > 1)
        arrive(
          isLeft = false,
          SyncRow(Some(s"key $id"), Some(time - 10000000 + random.nextInt(15000001)), id)
        )
    }

    def of(batch: Int, isLeft: Boolean): Seq[SyncRow] =
      arrivals.get(batch.toLong).fold(Seq.empty[SyncRow])(_.toSeq.collect { case (`isLeft`, row) => row })
  }

  for ((count, tags) <- Campaign.sizes(3, Campaign.seeds(short = 10).size))
    test(
      s"where the promise holds, all rows are those without it, however often it is switched, $count times",
      tags: _*
    ) {
      var early, switches = 0
      (0 until count).foreach { seed =>
        def run(chosen: Random => Boolean): (Seq[SyncOut], Int) = {
          emptyDirectory()
          val random = new Random(seed)
          val data = new Data(random, 1 + random.nextInt(150))
          val layout = SyncLayout(second, 1 + random.nextInt(20), 2 + random.nextInt(20))
          val kept = new KeptMemory(if (random.nextInt(3) == 0) 1L << 14 else Long.MaxValue)
          var provider = newProvider()
          val out = mutable.ArrayBuffer.empty[SyncOut]
          var before = 0
          (0 to 30).foreach { batch =>
            if (random.nextInt(5) == 0) provider = newProvider()
            // Nothing is late: rows are released when all have come.
            val end = if (batch == 30) Long.MaxValue else 100 * second
            val now = settings(emitsUnmatchedRight = true, oneToOne = chosen(random))
            val done = runBatch(
              open(provider, batch.toLong),
              now,
              SyncTimes(end, end),
              data.of(batch, isLeft = true),
              data.of(batch, isLeft = false),
              bufferBytes = if (random.nextInt(8) == 0) 1L else 4000L,
              layout = layout,
              kept = kept
            ).get
            if (batch < 30) before += done.out.size
            else assert(done.state.isEmpty && done.files == 0)
            assert(done.metrics(SyncMetrics.DuplicateLeft) + done.metrics(SyncMetrics.DuplicateRight) == 0)
            out ++= done.out
          }
          (out.toSeq.sortBy(_.toString), before)
        }
        val (plain, none) = run { random =>
          random.nextInt(6): Unit
          false
        }
        assert(none == 0)
        val (always, most) = run { random =>
          random.nextInt(6): Unit
          true
        }
        var isOn = true
        val (switched, some) = run { random =>
          if (random.nextInt(6) == 0) isOn = !isOn
          isOn
        }
        withClue(s"seed $seed: ") {
          assert(always == plain && switched == plain)
          // All pairs have come before the end.
          assert(most == plain.count(o => o.left.isDefined && o.right.isDefined) && some <= most)
        }
        early += most
        if (some > 0 && some < most) switches += 1
      }
      assert(early > 50 && switches > 0)
    }

  test(
    "where the data breaks the promise, each left row comes out once, and rights that are too many are counted"
  ) {
    val p = new Partition()
    p.batch(unknown, Seq(at("a", 10, 1), at("a", 11, 2)), Nil): Unit
    // The earlier left row takes both; the other one waits, and finds nothing.
    val both = p.batch(unknown, Nil, Seq(at("a", 12, 3), at("a", 11, 4)))
    assert(both.out == Seq(pair("a", 1, 4)) && both.metrics(SyncMetrics.DuplicateRight) == 1)
    // One that comes later isn't known as a duplicate: it goes to the left row that still waits.
    assert(p.batch(unknown, Nil, Seq(at("a", 13, 5))).out == Seq(pair("a", 2, 5)))
    val late = p.batch(unknown, Nil, Seq(at("a", 13, 6)))
    assert(late.out.isEmpty && late.held.right == 1)
    val end = p.batch(times(100, 100), Nil, Nil)
    assert(end.out.isEmpty && end.metrics(SyncMetrics.UnmatchedRight) == 1 && end.state.isEmpty)
  }

  test("policies of duplicates apply to what is decided in one batch") {
    Policy.onDuplicate.foreach { policy =>
      emptyDirectory()
      val p = new Partition()
      p.settings = settings(onDuplicate = policy, oneToOne = true)
      val lefts = Seq(at("a", 10, 1), at("a", 10.5, 2))
      val done = p.batch(unknown, lefts, Seq(at("a", 11, 3), at("a", 12, 4)))
      val mark = Option.when(policy == Policy.Mark)("duplicate")
      val joined = Seq(pair("a", 1, 3)) ++ mark.map(m => SyncOut(Some("a"), None, Some(4), Some(m)))
      assert(done.out == joined && done.held.left == 1 && done.held.right == 0)
      assert(p.batch(times(100, 100), Nil, Nil).out == Seq(alone("a", 2)))
    }
  }
}
