package io.tailrace.sync

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.Policy
import io.tailrace.state.{KeptMemory, OwnStoreProvider}
import io.tailrace.testkit.{Slow, SyncOut, SyncRow}

/** A synced join of one partition, batch by batch. */
final class SyncJoinTaskSuite extends AnyFunSuite with SyncFixture {
  private val second = 1000000L

  private def at(key: String, seconds: Double, id: Int): SyncRow =
    SyncRow(Some(key), Some((seconds * second).round), id)

  private def times(release: Double, leftLow: Double): SyncTimes =
    SyncTimes((release * second).round, (leftLow * second).round)
  private val unknown = SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown)

  private def pair(key: String, left: Int, right: Int) = SyncOut(Some(key), Some(left), Some(right), None)
  private def alone(key: String, left: Int) = SyncOut(Some(key), Some(left), None, None)

  /** Batches one after the other, on one executor. */
  private final class Partition(settings: SyncSettings, layout: SyncLayout = SyncLayout()) {
    var provider: OwnStoreProvider = newProvider()
    var version = 0L
    def batch(times: SyncTimes, left: Seq[SyncRow], right: Seq[SyncRow]): Done = {
      val done = runBatch(open(provider, version), settings, times, left, right, layout = layout).get
      version += 1
      done
    }
  }

  test("a left row waits for the release time, then comes out with its right row; both leave the state") {
    val p = new Partition(settings())
    val first = p.batch(unknown, Seq(at("a", 10, 1), at("b", 11, 2)), Seq(at("a", 10.5, 3)))
    assert(first.out.isEmpty && first.held.left == 2 && first.held.right == 1)
    assert(first.held.oldestLeft.contains(10 * second) && first.held.oldestRight.contains(10500000L))
    // A row at the release time waits.
    assert(p.batch(times(10, 11), Nil, Nil).out.isEmpty)
    val third = p.batch(SyncTimes(10 * second + 1, 11 * second), Nil, Nil)
    assert(third.out == Seq(pair("a", 1, 3)))
    assert(third.state == Map("held-left" -> 1) && third.held.right == 0 && third.held.left == 1)
    val last = p.batch(times(12, 12), Nil, Seq(at("b", 12, 4)))
    assert(last.out == Seq(pair("b", 2, 4)) && last.state.isEmpty && last.files == 0)
  }

  test("the first right row by time is taken, then by its bytes; the others are duplicates") {
    val p = new Partition(settings())
    p.batch(unknown, Nil, Seq(at("a", 3, 1), at("a", 2, 2), at("a", 2, 3)))
    val done = p.batch(times(5, 5), Seq(at("a", 1, 9)), Seq(at("a", 2, 4)))
    assert(done.out == Seq(pair("a", 9, 2)) && done.metrics(SyncMetrics.DuplicateRight) == 3)
    assert(done.state.isEmpty)
  }

  test("of several left rows of a key, the first gets the match, and the others follow on_duplicate") {
    val lefts = Seq(at("a", 2, 1), at("a", 1, 2), at("a", 1, 3))
    val rights = Seq(at("a", 5, 4), at("a", 6, 5))
    Policy.onDuplicate.foreach { policy =>
      emptyDirectory()
      val mark = Option.when(policy == Policy.Mark)("duplicate")
      val done = new Partition(settings(onDuplicate = policy)).batch(times(9, 9), lefts, rights)
      val joined = SyncOut(Some("a"), Some(2), Some(4), None)
      val others = Seq(3, 1).map(id => SyncOut(Some("a"), Some(id), None, mark))
      val other = SyncOut(Some("a"), None, Some(5), mark)
      assert(done.out == (policy match {
        case Policy.Emit => joined +: others
        case Policy.Drop => Seq(joined)
        case Policy.Mark => Seq(joined, other) ++ others
        case _ => fail(policy.name)
      }))
      assert(done.metrics(SyncMetrics.DuplicateLeft) == 2 && done.metrics(SyncMetrics.DuplicateRight) == 1)
    }
  }

  test("left rows without a key or a time come out at once, right ones are dropped and counted") {
    val p = new Partition(settings())
    val done = p.batch(
      unknown,
      Seq(SyncRow(None, Some(1), 1), SyncRow(Some("a"), None, 2)),
      Seq(SyncRow(None, Some(1), 3), SyncRow(Some("a"), None, 4))
    )
    assert(done.out == Seq(SyncOut(None, Some(1), None, None), alone("a", 2)))
    assert(done.metrics("nullKeyRightRows") == 2 && done.metrics(SyncMetrics.UnmatchedLeft) == 2)
    assert(done.state.isEmpty)
  }

  test("a right row leaves when the left side is past its time and window, and no earlier left row waits") {
    val p = new Partition(settings(window = 10 * second, emitsUnmatchedRight = true, syncDelay = 0))
    val out = SyncOut(Some("a"), None, Some(1), None)
    p.batch(unknown, Seq(at("b", 5, 2)), Seq(at("a", 1, 1)))
    // The left side is far ahead, but the right one has stalled: left rows wait, so right rows do too.
    assert(p.batch(times(4, 500), Nil, Nil).out.isEmpty)
    assert(p.batch(times(11, 500), Nil, Nil).out == Seq(alone("b", 2)))
    val done = p.batch(SyncTimes(11 * second + 1, 500 * second), Nil, Nil)
    assert(done.out == Seq(out) && done.metrics(SyncMetrics.UnmatchedRight) == 1 && done.state.isEmpty)
  }

  test("a left row gets its right row in the batch in which the right row expires") {
    val p = new Partition(settings(window = second))
    p.batch(unknown, Seq(at("a", 1, 1)), Seq(at("a", 2, 2)))
    assert(p.batch(times(100, 100), Nil, Nil).out == Seq(pair("a", 1, 2)))
  }

  test("rows further apart than the window or the sync delay don't match") {
    // The right rows are all there, however it is read.
    def out(left: Double, right: Double): Seq[SyncOut] = {
      emptyDirectory()
      val p = new Partition(settings(window = 10 * second, syncDelay = 3 * second))
      p.batch(unknown, Nil, Seq(at("a", right, 2))): Unit
      val done = p.batch(times(left + 1, 0), Seq(at("a", left, 1)), Nil)
      val tooFar = done.out.map(_.right) == Seq(None)
      assert(done.metrics(SyncMetrics.TooFar) == (if (tooFar) 1 else 0))
      assert(done.held.right == (if (tooFar) 1 else 0), "it may be another left row's")
      done.out
    }
    assert(out(left = 20, right = 10) == Seq(pair("a", 1, 2)))
    assert(out(left = 20, right = 23) == Seq(pair("a", 1, 2)))
    assert(out(left = 20, right = 9.999999) == Seq(alone("a", 1)))
    assert(out(left = 20, right = 23.000001) == Seq(alone("a", 1)))
  }

  test("a second left row of a key gets a right row that is too young for the first") {
    val p = new Partition(settings(window = 10 * second, syncDelay = 2 * second))
    p.batch(unknown, Nil, Seq(at("a", 2, 1), at("a", 8, 2), at("b", 8, 3))): Unit
    val lefts = Seq(at("a", 1, 11), at("a", 6.5, 12), at("a", 7, 13), at("a", 30, 14))
    val done = p.batch(times(40, 0), lefts, Seq(at("a", 30, 4), at("a", 32, 5), at("a", 33, 6)))
    assert(done.out == Seq(pair("a", 11, 1), pair("a", 12, 2), alone("a", 13), pair("a", 14, 4)))
    assert(done.metrics(SyncMetrics.DuplicateRight) == 1 && done.metrics(SyncMetrics.DuplicateLeft) == 1)
    assert(done.held.right == 2)
  }

  test("a right row expires although other rows of its section don't") {
    val p = new Partition(settings(window = second), SyncLayout(bucketWidth = 1000 * second))
    p.batch(unknown, Nil, Seq(at("a", 1, 1), at("b", 50, 2)))
    val first = p.batch(times(10, 10), Nil, Nil)
    assert(first.out.isEmpty && first.metrics(SyncMetrics.UnmatchedRight) == 1)
    assert(first.state == Map("held-right" -> 1))
    assert(p.batch(times(11, 11), Seq(at("a", 0, 3)), Nil).out == Seq(alone("a", 3)))
    val done = p.batch(times(100, 100), Nil, Nil)
    assert(done.metrics(SyncMetrics.UnmatchedRight) == 1 && done.state.isEmpty)
  }

  test("the index is kept from batch to batch; a new executor, or a failure, makes it again from the state") {
    val p = new Partition(settings())
    def read(done: Done) = done.metrics(SyncMetrics.IndexesRead)
    assert(read(p.batch(unknown, Nil, (1 to 9).map(i => at(s"k$i", i.toDouble, i)))) == 1)
    assert(read(p.batch(times(2, 2), Seq(at("k1", 1, 1)), Nil)) == 0)
    assert(runBatch(open(p.provider, 2), settings(), unknown, Seq(at("k2", 1, 2)), Nil, until = 0).isEmpty)
    val again = p.batch(times(3, 3), Seq(at("k1", 1, 4), at("k2", 1, 2)), Nil)
    assert(read(again) == 1 && again.out.toSet == Set(alone("k1", 4), pair("k2", 2, 2)))
    p.provider = newProvider()
    val other = p.batch(times(4, 4), Seq(at("k1", 1, 5), at("k2", 1, 6), at("k3", 1, 7)), Nil)
    assert(read(other) == 1 && other.out.toSet == Set(alone("k1", 5), alone("k2", 6), pair("k3", 7, 3)))
  }

  test("mostly dead runs and those beyond the limit are carried forward, with the same rows") {
    val p = new Partition(settings(window = 1000 * second), SyncLayout(mostRuns = 4))
    val dones = (1 to 30).map { i =>
      val fresh = (0 until 10).map(n => at(s"k$i-$n", i.toDouble, i * 100 + n))
      val due = (0 until 8).map(n => at(s"k${i - 1}-$n", i - 0.5, i * 100 + n))
      p.batch(times(i.toDouble, i.toDouble), due, fresh)
    }
    assert(dones.forall(_.files <= 4) && dones.map(_.metrics(SyncMetrics.CarriedRows)).sum > 0)
    assert(dones.drop(1).forall(_.out.forall(o => o.right.isDefined)))
    val lefts = for (i <- 1 to 29; n <- 8 to 9) yield at(s"k$i-$n", 30, i * 100 + n)
    val done = p.batch(times(31, 31), lefts, Nil)
    assert(done.out.map(o => o.left -> o.right).forall { case (l, r) => l == r })
    assert(done.out.size == 58)
  }

  test("a task with little memory gives the same rows as one with much", Slow) {
    val random = new Random(5)
    def rows(n: Int) = (0 until n).map(i => at(s"key ${random.nextInt(n)}", random.nextInt(50).toDouble, i))
    val batches = Seq.fill(3)((rows(9000), rows(9000))) :+ ((Nil, Nil))
    def run(memoryBytes: Long, bufferBytes: Long): Seq[Seq[SyncOut]] = {
      emptyDirectory()
      val provider = newProvider()
      batches.zipWithIndex.map { case ((left, right), i) =>
        runBatch(
          open(provider, i.toLong),
          settings(onDuplicate = Policy.Drop),
          times(i * 20.0, i * 20.0),
          left,
          right,
          bufferBytes,
          memoryBytes
        ).get.out.sortBy(_.toString)
      }
    }
    val much = run(512L << 20, 64L << 20)
    assert(much.flatten.size > 5000)
    assert(run(4L << 20, 64L << 20) == much)
    assert(run(512L << 20, 100000) == much)
  }

  test("right rows that the index has no memory for are found, and it has no more than it may") {
    val kept = new KeptMemory(1L << 17)
    val provider = newProvider()
    def rows(batch: Int) = (0 until 3000).map(i => at(s"key $i of $batch", batch * 10 + i / 1000.0, i))
    def batch(
        i: Int,
        to: Double,
        left: Seq[SyncRow],
        right: Seq[SyncRow],
        from: OwnStoreProvider = provider
    ) =
      runBatch(open(from, i.toLong), settings(), times(to, to), left, right, kept = kept).get
    def pairs(done: Done) = done.out.map(o => o.left.get -> o.right.get).sorted
    val all = (0 until 3000).map(i => i -> i)
    // The latest rows of the earlier batches make room for earlier ones, or aren't in the index at all.
    Seq(4, 3, 2, 1).zipWithIndex.foreach { case (b, i) => batch(i, 0, rows(b), rows(b)): Unit }
    assert(kept.bytes <= (1L << 17) && batch(4, 0, Nil, Nil).metrics(SyncMetrics.IndexBytes) > 0)
    assert(pairs(batch(5, 15, Nil, Nil)) == all)
    // Of the next batch, a part leaves its sections, and then the index is made anew.
    assert(pairs(batch(6, 21.5, Nil, Nil)) == all.take(1500))
    val anew = newProvider()
    assert(pairs(batch(7, 25, Nil, Nil, anew)) == all.drop(1500))
    val last = batch(8, 100, Nil, Nil, anew)
    assert(pairs(last) == (all ++ all).sorted && last.state.isEmpty && kept.bytes <= (1L << 17))
  }
}
