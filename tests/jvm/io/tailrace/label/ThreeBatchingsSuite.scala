package io.tailrace.label

import java.util.Arrays

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.tailrace.TaskMemory
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceConf
import io.tailrace.testkit._

/** The same rows, none of them late, are cut into batches in three ways, with other orders, watermarks,
  * buffers, memories, compactions and restarts. The result is the same, byte for byte, and it is the
  * oracle's. Many rows have equal times, and all left rows expire at the ends of windows. A longer run:
  * `TAILRACE_FAULTS=<seeds>`.
  */
final class ThreeBatchingsSuite extends AnyFunSuite with JoinFixture with CampaignSuite {

  private def settings(random: Random, data: JoinData): JoinSettings = {
    def oneOf[T](values: T*): T = values(random.nextInt(values.size))
    val tick = data.span / data.ticks
    val grouped = random.nextInt(4) > 0
    // The ends of windows are times of rows.
    val window = JoinWindow(oneOf(0L, 0L, tick, 3 * tick), oneOf(0L, tick, 4 * tick, data.span))
    JoinSettings(
      window,
      if (grouped) JoinOutput.Grouped else JoinOutput.Pairs,
      if (grouped) OneGroup(oneOf(MatchPolicy.values: _*), oneOf(None, Some(1), Some(3)))
      else OneGroup(MatchPolicy.All, None),
      marksLate = false,
      oneOf(MatchStrategy.values: _*),
      // No longer than the last watermark moves, so that the last batch releases all that is left.
      Option.when(grouped)(ReleaseSteps(oneOf(0L, 1L, tick, window.before + window.after)))
    )
  }

  /** Rows by their times, each up to `lag` ticks late, cut anywhere. */
  private def cut(random: Random, count: Int, timeOf: Int => Long, batches: Int, lag: Long): Seq[Seq[Int]] = {
    val arrival =
      (0 until count).map(i => (timeOf(i) + (random.nextDouble() * lag).toLong, random.nextInt(), i))
    val sorted = arrival.sorted.map(_._3)
    val cuts = Seq.fill(batches - 1)(random.nextInt(count + 1)).sorted
    (0 +: cuts).zip(cuts :+ count).map { case (from, to) => sorted.slice(from, to) }
  }

  private def run(random: Random, data: JoinData, settings: JoinSettings): Seq[Seq[Byte]] = {
    emptyDirectory()
    def oneOf[T](values: T*): T = values(random.nextInt(values.size))
    val lag = oneOf(0L, data.span / 10, data.span * 2)
    val batches = 1 + random.nextInt(8)
    val lefts = cut(random, data.lefts, data.left(_)._2, batches, lag)
    val rights = cut(random, data.rights, data.right(_)._2, batches, lag)
    val hadoop = hadoopConf()
    hadoop.set(TailraceConf.CompactionRuns.key, oneOf("2", "3", "1000"))
    if (random.nextInt(3) == 0) withLittleDisk(hadoop, oneOf(0L, 20000L))
    var provider = newProvider(hadoop = hadoop)
    val bufferBytes = oneOf(9000L, 30000L, 64L << 20)
    val memory = oneOf(1L << 20, 64L << 20)
    val out = new ArrayBuffer[Seq[Byte]]
    val oracle = new JoinDataOracle(data, settings)
    val metrics = joinMetrics()
    (0 to batches).foreach { batch =>
      if (random.nextInt(4) == 0) provider = newProvider(hadoop = hadoop)
      // No row that is still to come is at the watermark or behind it.
      val coming = lefts.drop(batch + 1).flatten.map(data.left(_)._2) ++
        rights.drop(batch + 1).flatten.map(data.right(_)._2)
      val highest =
        if (batch == batches) data.end + 2 * (settings.window.before + settings.window.after) + 1
        else coming.minOption.fold(data.end)(_ - 1)
      val watermark = if (batch < batches && random.nextInt(4) == 0) JoinWindow.NoWatermark else highest
      val manager = TaskMemory.create(memory)
      val store = open(provider, batch.toLong)
      val task = taskOf(data, settings, store, manager, watermark, metrics, bufferBytes)
      try {
        val (left, right) = if (batch < batches) (lefts(batch), rights(batch)) else (Nil, Nil)
        task.output(data.leftRows(left), data.rightRows(right)).foreach { row =>
          oracle.take(row)
          val bytes = row.asInstanceOf[UnsafeRow]
          out += Arrays.copyOf(bytes.getBytes, bytes.getSizeInBytes).toSeq
        }
        task.expire()
        task.close()
        store.commit()
      } finally {
        task.close()
        store.abort()
      }
    }
    assert(oracle.differences.isEmpty)
    assert(open(provider, batches + 1L).metrics.numKeys == 0, "rows are left in the state")
    out.sortWith((a, b) => Arrays.compare(a.toArray, b.toArray) < 0).toSeq
  }

  test("three batchings of the same rows give the same result") {
    val only = Option(System.getProperty("tailrace.seed")).map(_.toInt)
    only.fold[Seq[Int]](Campaign.seeds(short = 16))(Seq(_)).foreach { seed =>
      withClue(s"-Dtailrace.seed=$seed: ") {
        val random = new Random(seed)
        val data = JoinData(
          seed,
          lefts = 1 + random.nextInt(150),
          rights = random.nextInt(300),
          keys = Seq(1, 3, 40)(random.nextInt(3)),
          ticks = Seq(1, 5, 30)(random.nextInt(3)),
          bytes = 20,
          wide = Seq(20, 30000)(random.nextInt(2))
        )
        val chosen = settings(random, data)
        val results = Seq.fill(3)(run(random, data, chosen))
        assert(results.distinct.size == 1, s"$data $chosen")
      }
    }
  }
}
