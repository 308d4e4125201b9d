package io.tailrace.label

import scala.util.Random

import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.tailrace.TaskMemory
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException
import io.tailrace.state.RowMemory
import io.tailrace.testkit.{CampaignSuite, JoinData, JoinDataOracle, JoinFixture}

/** Joins of many times a task's memory, compared with an oracle: all in one micro-batch, hot keys on either
  * side, wide rows, memory that others take meanwhile. The short form has small memories, and little data.
  * `TAILRACE_MEMORY=128,256,512` runs them with tasks of so many MiB, and data in proportion.
  */
final class MemoryCampaignSuite extends AnyFunSuite with JoinFixture with CampaignSuite {
  private val MiB = 1L << 20

  private val sizes: Seq[Long] =
    sys.env.get("TAILRACE_MEMORY").fold(Seq(2 * MiB))(_.split(",").toSeq.map(_.trim.toLong * MiB))

  private val second = 1000L * 1000

  private def settings(
      strategy: MatchStrategy,
      policy: MatchPolicy = MatchPolicy.All,
      maxMatches: Option[Int] = None,
      output: JoinOutput = JoinOutput.Grouped,
      before: Long = 0,
      after: Long = 100 * second
  ): JoinSettings =
    JoinSettings(JoinWindow(before, after), output, OneGroup(policy, maxMatches), marksLate = false, strategy)

  /** @param batches how the rows are cut; all of them expire in the last one
    * @param memory  of each batch's task
    */
  private def run(
      data: JoinData,
      settings: JoinSettings,
      batches: Int,
      memory: () => TaskMemoryManager
  ): Unit = {
    emptyDirectory()
    val provider = newProvider()
    val oracle = new JoinDataOracle(data, settings)
    val metrics = joinMetrics()
    (0 until batches).foreach { batch =>
      val isLast = batch == batches - 1
      val watermark = if (isLast) data.end + settings.window.after + 1 else JoinWindow.NoWatermark
      val manager = memory()
      val store = open(provider, batch.toLong)
      val task = taskOf(data, settings, store, manager, watermark, metrics)
      runTask(task, store, manager)(
        data.leftRows(part(data.lefts, batch, batches)),
        data.rightRows(part(data.rights, batch, batches))
      )(oracle.take)
    }
    val differences = oracle.differences
    assert(differences.isEmpty, s"$data $settings, $batches batches")
    provider.close()
  }

  /** The number of rows of so many bytes that take `share` times the memory, with all that is kept beside
    * them.
    */
  private def rows(memory: Long, share: Double, bytes: Int): Int = (memory * share / (bytes + 120)).toInt

  sizes.foreach { size =>
    val name = s"${size / MiB} MiB"
    def fixed: () => TaskMemoryManager = () => TaskMemory.create(size)

    def each(what: String)(body: (MatchStrategy, JoinOutput) => Unit): Unit =
      Seq(
        (MatchStrategy.Lazy, JoinOutput.Grouped),
        (MatchStrategy.Eager, JoinOutput.Grouped),
        (MatchStrategy.Lazy, JoinOutput.Pairs)
      ).foreach { case (strategy, output) =>
        val way = if (output == JoinOutput.Pairs) "inner" else strategy.name
        test(s"$what: $way, $name")(body(strategy, output))
      }

    each("many rows, few matches") { (strategy, output) =>
      val data = JoinData(1, rows(size, 3, 300), rows(size, 0.1, 300), keys = 5000, bytes = 300)
      run(data, settings(strategy, output = output), 1, fixed)
      run(data, settings(strategy, output = output), 2, fixed)
    }

    each("more right rows than left ones") { (strategy, output) =>
      val data = JoinData(2, rows(size, 0.3, 100), rows(size, 3, 100), keys = 3000)
      run(data, settings(strategy, output = output), 2, fixed)
    }

    each("rows of a tenth of the memory among small ones") { (strategy, output) =>
      val wide = (size / 20).toInt
      val count = (8 * size / wide).toInt * 20
      val data = JoinData(3, count / 2, count / 4, keys = 500, bytes = 20, wide = wide)
      run(data, settings(strategy, output = output), 2, fixed)
    }

    each("memory that others take away and give back") { (strategy, output) =>
      val data = JoinData(4, rows(size, 2, 200), rows(size, 1, 200), keys = 2000, bytes = 200)
      (1 to 3).foreach { seed =>
        val random = new Random(seed)
        var now = size
        var asked = 0
        val memory = () =>
          TaskMemory.changing(size) { () =>
            asked += 1
            if (asked % 20 == 0) now = size / (1 << random.nextInt(5))
            now
          }
        run(data, settings(strategy, output = output), 2, memory)
      }
    }

    // Most of them have one key, with several times the rows that fit into memory. With much memory they are
    // few and wide, because the oracle holds a line for each.
    val hotBytes = if (size > 16 * MiB) 600 else 100
    val hotRights = rows(size, if (size > 16 * MiB) 1.6 else 4, hotBytes)

    Seq(MatchStrategy.Lazy, MatchStrategy.Eager).foreach { strategy =>
      Seq(
        MatchPolicy.First -> None,
        MatchPolicy.Last -> None,
        MatchPolicy.Nearest -> None,
        MatchPolicy.All -> Some(3),
        MatchPolicy.All -> Some(100)
      ).foreach { case (policy, most) =>
        test(
          s"a hot key, match=${policy.name}, max_matches=${most.getOrElse("none")}: ${strategy.name}, $name"
        ) {
          val few =
            JoinData(5, 20, hotRights, keys = 50, hotLeft = 50, hotRight = 90, ticks = 700, bytes = hotBytes)
          run(few, settings(strategy, policy, most, before = 7 * second, after = 900 * second), 2, fixed)
        }
      }
      test(s"a hot key of one time: ${strategy.name}, $name") {
        val data =
          JoinData(6, 3, hotRights, keys = 2, hotLeft = 90, hotRight = 90, ticks = 1, bytes = hotBytes)
        Seq(MatchPolicy.First -> None, MatchPolicy.Last -> None, MatchPolicy.All -> Some(5)).foreach {
          case (policy, most) => run(data, settings(strategy, policy, most), 1, fixed)
        }
      }
    }

    test(s"a hot key on both sides, each window fits: lazy, $name") {
      val lefts = Math.min(10000, rows(size, 1, 100))
      val data = JoinData(7, lefts, hotRights, keys = 50, hotLeft = 20, hotRight = 90, ticks = 100000)
      // A two thousandth of the labels in a window.
      run(data, settings(MatchStrategy.Lazy, after = 5 * second / 10), 2, fixed)
    }

    test(s"groups of a third of the memory among many left rows: lazy, $name") {
      val lefts = rows(size, 2, 50)
      // About eight left rows have the key of most labels.
      val data = JoinData(8, lefts, rows(size, 1.2, hotBytes), keys = lefts / 8, hotRight = 90, ticks = 500)
      run(data.copy(bytes = hotBytes), settings(MatchStrategy.Lazy, after = 280 * second), 2, fixed)
    }

    test(s"a hot key on both sides: inner, $name") {
      val data =
        JoinData(9, 300, hotRights, keys = 50, hotLeft = 50, hotRight = 90, ticks = 700, bytes = hotBytes)
      run(
        data,
        settings(MatchStrategy.Lazy, output = JoinOutput.Pairs, before = 2 * second, after = 30 * second),
        2,
        fixed
      )
      run(
        data.copy(lefts = hotRights, rights = 300),
        settings(MatchStrategy.Lazy, output = JoinOutput.Pairs),
        2,
        fixed
      )
    }

    test(s"rows that leave when they are decided, many and of a hot key: $name") {
      def decided(data: JoinData): Unit = {
        val first = settings(MatchStrategy.Decided, MatchPolicy.First, after = 100 * second)
        run(data, first.copy(decided = true), 2, fixed)
      }
      decided(JoinData(12, rows(size, 2, 200), rows(size, 4, 200), keys = 5000, bytes = 200))
      decided(
        JoinData(13, 300, hotRights, keys = 50, hotLeft = 90, hotRight = 90, ticks = 700, bytes = hotBytes)
      )
    }

    test(s"a group that is larger than the memory is an error that names it: $name") {
      val data = JoinData(10, 3, hotRights, keys = 1, hotLeft = 100, hotRight = 100, bytes = hotBytes)
      Seq(MatchStrategy.Lazy, MatchStrategy.Eager).foreach { strategy =>
        val error = intercept[TailraceStateException] {
          run(data, settings(strategy, after = 2000 * second), 2, fixed)
        }
        assert(error.getCondition == "TAILRACE_MEMORY_GROUP")
      }
    }

    Seq(
      settings(MatchStrategy.Lazy, MatchPolicy.First),
      settings(MatchStrategy.Lazy, MatchPolicy.Last, after = 900 * second),
      settings(MatchStrategy.Lazy, MatchPolicy.Nearest, before = 100 * second),
      settings(MatchStrategy.Lazy, maxMatches = Some(3), after = 900 * second),
      settings(MatchStrategy.Lazy, after = second / 10),
      settings(MatchStrategy.Lazy, output = JoinOutput.Pairs, after = 300 * second)
    ).foreach { s =>
      val what = s"${s.output.name}, ${s.form.text}"
      test(s"batch DataFrames, a hot key: $what, $name") {
        val data =
          JoinData(11, 40, hotRights, keys = 50, hotLeft = 50, hotRight = 90, ticks = 1000, bytes = hotBytes)
        runBatch(data, s, TaskMemory.create(size))
      }
    }
  }

  /** As batch DataFrames, whose rows Spark sorts. */
  private def runBatch(data: JoinData, settings: JoinSettings, manager: TaskMemoryManager): Unit = {
    val columns = columnsOf(settings)
    val oracle = new JoinDataOracle(data, settings)
    def sorted(n: Int, keyAndTime: Int => (Long, Long)): Seq[Int] =
      (0 until n).map(i => (keyAndTime(i), i)).sorted.map(_._2)
    val (toLeft, toRight) =
      (
        UnsafeProjection.create(columns.left, columns.left),
        UnsafeProjection.create(columns.right, columns.right)
      )
    val merge = new BatchMerge(
      columns,
      settings,
      data.leftRows(sorted(data.lefts, data.left)).map(toLeft(_): InternalRow),
      data.rightRows(sorted(data.rights, data.right)).map(toRight(_): InternalRow),
      new RowMemory(manager)
    )
    try merge.foreach(oracle.take)
    finally merge.close()
    assert(manager.getMemoryConsumptionForThisTask == 0, "bytes of task memory are still taken")
    val differences = oracle.differences
    assert(differences.isEmpty)
    ()
  }
}
