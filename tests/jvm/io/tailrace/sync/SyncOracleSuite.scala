package io.tailrace.sync

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.Policy
import io.tailrace.state.KeptMemory
import io.tailrace.testkit.{Campaign, SyncOracle, SyncRow}

/** A synced join of one partition against the oracle, batch by batch: random rows, times, layouts, restarts
  * and failed attempts.
  */
final class SyncOracleSuite extends AnyFunSuite with SyncFixture {
  private val second = 1000000L
  private val unknown = SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown)

  // Each a scenario of its own; TAILRACE_FAULTS=<seeds> makes it long.
  private val only = Option(System.getProperty("tailrace.seed")).map(_.toInt)

  for ((count, tags) <- Campaign.sizes(6, Campaign.seeds(short = 30).size))
    test(
      s"random batches, layouts, restarts and failed attempts give the rows of the oracle, $count times",
      tags: _*
    ) {
      only.fold[Seq[Int]](0 until count)(Seq(_)).foreach { seed =>
        withClue(s"-Dtailrace.seed=$seed: ") {
          emptyDirectory()
          scenario(new Random(seed))
        }
      }
    }

  private def scenario(random: Random): Unit = {
    def oneOf[T](values: T*): T = values(random.nextInt(values.size))
    val window = oneOf(0L, 3L, 20L) * second
    val onDuplicate = oneOf(Policy.onDuplicate: _*)
    val emitRight = random.nextBoolean()
    val syncDelay = oneOf(0L, 2L, 30L) * second
    val oneToOne = random.nextBoolean()
    val chosen = settings(window, onDuplicate, emitRight, syncDelay, oneToOne)
    val oracle = new SyncOracle(window, syncDelay, onDuplicate.name, emitRight, oneToOne)
    val keys = oneOf(3, 40, 1000)
    val layout = SyncLayout(oneOf(1L, second, 1000 * second), oneOf(1, 5, 2048), oneOf(2, 5, 64))
    val hash = if (random.nextInt(3) == 0) Colliding else KeyHash.XX64
    // For all, for some or for none of the right rows.
    val most = oneOf(Long.MaxValue, 1L << 15, 0L)
    val kept = new KeptMemory(most)
    var provider = newProvider()
    var now, release, leftLow = 0L
    var ids = 0
    var total = Map.empty[String, Long].withDefaultValue(0L)

    def rows(): Seq[SyncRow] = Seq.fill(random.nextInt(oneOf(1, 5, 60))) {
      ids += 1
      SyncRow(
        if (random.nextInt(40) == 0) None else Some(s"key ${random.nextInt(keys)}"),
        if (random.nextInt(40) == 0) None else Some(now + random.nextInt(9000000) - 4000000),
        ids
      )
    }

    val count = 3 + random.nextInt(40)
    (0 to count).foreach { i =>
      val last = i == count
      now += random.nextInt(2000000)
      if (random.nextInt(4) != 0) release = Math.max(release, now - random.nextInt(6000000))
      if (random.nextInt(4) != 0) leftLow = Math.max(leftLow, now - random.nextInt(6000000))
      if (last) {
        release = Long.MaxValue
        leftLow = Long.MaxValue
      }
      val known = i > 2
      val (left, right) = (rows(), rows())
      val times = if (known) SyncTimes(release, leftLow) else unknown
      def attempt(until: Int): Option[Done] = runBatch(
        open(provider, i.toLong),
        chosen,
        times,
        left,
        right,
        oneOf(4000L, 1L << 26, 1L << 26),
        hash = hash,
        layout = layout,
        until = until,
        kept = kept
      )
      if (random.nextInt(6) == 0) provider = newProvider()
      if (random.nextInt(6) == 0) attempt(random.nextInt(3))
      // A version that Spark doesn't get to know of: the batch runs again.
      if (random.nextInt(8) == 0) attempt(Int.MaxValue)
      val done = attempt(Int.MaxValue).get
      val (expected, expectedRight) =
        oracle.batch(Option.when(known)(release), Option.when(known)(leftLow), left, right)
      val (rightOut, leftOut) =
        done.out.partition(o => o.left.isEmpty && o.mark.isEmpty)
      assert(leftOut.sortBy(_.toString) == expected.sortBy(_.toString), s"batch $i")
      assert(rightOut.sortBy(_.toString) == expectedRight.sortBy(_.toString), s"batch $i")
      done.metrics.foreach { case (name, value) => total = total.updated(name, total(name) + value) }
      assert(done.held.left == oracle.bufferedLeft.size, s"batch $i")
      assert(done.held.right == oracle.bufferedRight.size, s"batch $i")
      assert(done.state.getOrElse("held-left", 0) == done.held.left, s"batch $i")
      assert(done.state.getOrElse("held-right", 0) == done.held.right, s"batch $i")
      assert(done.state.keySet.subsetOf(Set("held-left", "held-right")))
      assert(done.rows == done.held.left + done.held.right, s"batch $i")
      assert(done.held.oldestLeft.isDefined == oracle.bufferedLeft.nonEmpty)
      assert(done.held.oldestLeft.forall(t => oracle.bufferedLeft.forall(_.time.get >= t)), s"batch $i")
      if (last) assert(done.state.isEmpty && done.files == 0)
    }
    assert(total(SyncMetrics.Matched) == oracle.matched)
    assert(total(SyncMetrics.UnmatchedLeft) == oracle.unmatchedLeft)
    assert(total(SyncMetrics.UnmatchedRight) == oracle.unmatchedRight)
    assert(total(SyncMetrics.DuplicateLeft) == oracle.duplicateLeft)
    assert(total(SyncMetrics.DuplicateRight) == oracle.duplicateRight)
    assert(total(SyncMetrics.LateLeft) == oracle.lateLeft)
    // Sections that aren't in the index are read as far as left rows can reach.
    if (most == Long.MaxValue) assert(total(SyncMetrics.TooFar) == oracle.tooFar)
    else assert(total(SyncMetrics.TooFar) <= oracle.tooFar)
    assert(total("nullKeyRightRows") == oracle.nullRight)
  }
}
