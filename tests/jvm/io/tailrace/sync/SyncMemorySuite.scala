package io.tailrace.sync

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.Policy
import io.tailrace.testkit.{CampaignSuite, SyncOracle, SyncOut, SyncRow}

/** Synced joins of several times what a task's memory holds, against the oracle: rows that wait, a release
  * after a long stall, a key that many rows have, rows of a tenth of the memory. `TAILRACE_MEMORY=128` as in
  * the campaign of the label join; the oracle compares each row with each, so there the rows are large and
  * not many.
  */
final class SyncMemorySuite extends AnyFunSuite with SyncFixture with CampaignSuite {
  private val second = 1000000L
  private val MiB = 1L << 20

  private val memory: Long =
    sys.env.get("TAILRACE_MEMORY").fold(2 * MiB)(_.split(",").head.trim.toLong * MiB)

  /** Keys that are rows of some size: each is told by its beginning. */
  private def keyOf(number: Int, bytes: Int): String = s"$number " + "k" * bytes

  private final class Data(random: Random, hot: Int, wide: Int) {
    private val count = 1200
    private val bytes = (memory * 2 / count / 2).toInt
    private var ids = 0

    def rows(spread: Int): Seq[SyncRow] = Seq.fill(count) {
      ids += 1
      val number = if (random.nextInt(100) < hot) 0 else 1 + random.nextInt(count)
      val size = if (number % 300 == 299) wide else bytes
      SyncRow(Some(keyOf(number, size)), Some(random.nextInt(spread) * second), ids)
    }
  }

  private def run(
      seed: Int,
      onDuplicate: Policy,
      hot: Int,
      spread: Int = 1000,
      window: Long = 20 * second,
      syncDelay: Long = 5 * second,
      bufferBytes: Long = 64 * MiB,
      oneToOne: Boolean = false
  ): Unit = {
    emptyDirectory()
    val data = new Data(new Random(seed), hot, (memory / 12).toInt)
    val chosen = settings(window, onDuplicate, emitsUnmatchedRight = true, syncDelay, oneToOne)
    val oracle = new SyncOracle(window, syncDelay, onDuplicate.name, true, oneToOne)
    val provider = newProvider()
    val end = 2L * spread * second
    // With one_to_one, the second batch has rows that rows of the first have waited for.
    val ends = if (oneToOne) Seq(None, Some(0L), Some(end)) else Seq(None, Some(end))
    ends.zipWithIndex.foreach { case (time, batch) =>
      val (left, right) = (data.rows(spread), data.rows(spread))
      val times = time.fold(SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown))(t => SyncTimes(t, t))
      val done =
        runBatch(
          open(provider, batch.toLong),
          chosen,
          times,
          left,
          right,
          bufferBytes,
          memoryBytes = memory
        ).get
      val (expected, expectedRight) = oracle.batch(time, time, left, right)
      val (rightOut, leftOut) = done.out.partition(o => o.left.isEmpty && o.mark.isEmpty)
      // By their ids: the keys are long.
      def ids(rows: Seq[SyncOut]) =
        rows.map(o => (o.left.getOrElse(-1), o.right.getOrElse(-1), o.mark, o.key.map(_.length))).sorted
      assert(ids(leftOut) == ids(expected), s"batch $batch")
      assert(ids(rightOut) == ids(expectedRight), s"batch $batch")
      assert(done.held.left == oracle.bufferedLeft.size && done.held.right == oracle.bufferedRight.size)
    }
  }

  Policy.onDuplicate.foreach { onDuplicate =>
    test(s"rows of several times the memory are joined, on_duplicate=${onDuplicate.name}") {
      run(1, onDuplicate, hot = 0)
    }

    test(s"half of the rows with one key and time are joined, on_duplicate=${onDuplicate.name}") {
      run(2, onDuplicate, hot = 50, spread = 1)
    }
  }

  Seq(0, 50).foreach { hot =>
    test(s"rows come out before they are released, and the others are written back, $hot % of one key") {
      run(5, Policy.Mark, hot, oneToOne = true)
      run(6, Policy.Mark, hot, spread = 20, oneToOne = true, bufferBytes = 100000)
    }
  }

  test("half of the rows with one key, most of them out of reach, are joined") {
    run(3, Policy.Mark, hot = 50, window = 3 * second)
  }

  test("more right rows of a key than fit in memory are kept for later left rows") {
    run(4, Policy.Mark, hot = 50, window = 50 * second, syncDelay = 50 * second, bufferBytes = 200000)
  }
}
