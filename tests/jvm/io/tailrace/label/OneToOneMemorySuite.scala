package io.tailrace.label

import java.util.{TreeSet => SortedSet}

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.tailrace.TaskMemory
import org.scalatest.concurrent.{Signaler, ThreadSignaler, TimeLimits}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

import io.tailrace.state.RowMemory
import io.tailrace.testkit.{JoinData, JoinFixture, SlowSuite}

/** Pairs of `one_to_one` where one key has several times the rows that fit in memory, on both sides, in tasks without a
  * query. The work mustn't grow with the square of the rows: at this size that would take hours.
  */
final class OneToOneMemorySuite extends AnyFunSuite with JoinFixture with TimeLimits with SlowSuite {
  private implicit val signaler: Signaler = ThreadSignaler
  private val MiB = 1L << 20
  private val second = 1000000L

  private def settings(before: Long, after: Long) = JoinSettings(
    JoinWindow(before, after),
    JoinOutput.Pairs,
    OneGroup(MatchPolicy.All, None),
    marksLate = false,
    MatchStrategy.Eager,
    oneToOne = true
  )

  /** A row by its time and its content, in which a number stands with its lowest byte first. */
  private type Place = (Long, Long)
  private def place(time: Long, id: Int): Place = time -> (Integer.reverseBytes(id) & 0xffffffffL)
  private val byPlace = implicitly[Ordering[Place]]

  /** What two micro-batches pair, by search in sorted sets: each row takes the first one of its window that is free. */
  private final class Oracle(data: JoinData, window: JoinWindow) {
    private val free = Seq.fill(2)(mutable.Map.empty[Long, SortedSet[Place]])
    val pairs = mutable.Set.empty[(Int, Int)]
    var leftOut = 0L

    private def add(side: Int, rows: Seq[(Long, Place)]): Unit = rows.foreach { case (key, row) =>
      free(side).getOrElseUpdate(key, new SortedSet[Place](byPlace)).add(row)
    }

    private def id(row: Place): Int = Integer.reverseBytes(row._2.toInt)

    /** @return the rows that find none */
    private def probe(side: Int, rows: Seq[(Long, Place)], from: Long, to: Long): Seq[(Long, Place)] = {
      val others = free(1 - side)
      val times = others.view.mapValues(_.toArray(Array.empty[Place]).map(_._1)).toMap
      def before(key: Long, time: Long): Int = times.get(key).fold(0) { all =>
        var (low, high) = (0, all.length)
        while (low < high) {
          val middle = (low + high) / 2
          if (all(middle) >= time) high = middle else low = middle + 1
        }
        low
      }
      rows.sorted.filter { case (key, row) =>
        val first = others.get(key).map(_.ceiling((row._1 + from, Long.MinValue)))
        val found = first.filter(other => other != null && other._1 <= row._1 + to)
        found.foreach { other =>
          others(key).remove(other)
          pairs += (if (side == 0) id(row) -> id(other) else id(other) -> id(row))
        }
        leftOut += before(key, row._1 + to + 1) - before(key, row._1 + from) - found.size
        found.isEmpty
      }
    }

    private def rows(ids: Range, row: Int => (Long, Long)): Seq[(Long, Place)] =
      ids.map(i => row(i)._1 -> place(row(i)._2, i))

    def batch(lefts: Range, rights: Range): Unit = {
      add(0, probe(0, rows(lefts, data.left), -window.before, window.after))
      add(1, probe(1, rows(rights, data.right), -window.after, window.before))
    }
  }

  private def run(
      data: JoinData,
      settings: JoinSettings,
      batches: Int,
      bufferBytes: Long,
      memory: () => TaskMemoryManager
  ): Unit = {
    emptyDirectory()
    val provider = newProvider()
    val oracle = new Oracle(data, settings.window)
    val metrics = joinMetrics()
    val out = mutable.ArrayBuffer.empty[(Int, Int)]
    (0 until batches).foreach { batch =>
      val (lefts, rights) = (part(data.lefts, batch, batches), part(data.rights, batch, batches))
      val manager = memory()
      val store = open(provider, batch.toLong)
      val task = taskOf(data, settings, store, manager, JoinWindow.NoWatermark, metrics, bufferBytes)
      val random = new Random(batch.toLong)
      val (someLefts, someRights) = (random.shuffle(lefts.toList), random.shuffle(rights.toList))
      runTask(task, store, manager)(data.leftRows(someLefts), data.rightRows(someRights)) { row =>
        out += row.getInt(2) -> row.getInt(5): Unit
      }
      oracle.batch(lefts, rights)
    }
    assert(out.size == out.toSet.size)
    val (found, expected) = (out.toSet, oracle.pairs.toSet)
    assert(found == expected, s"${(found -- expected).size} of ${expected.size} pairs differ")
    assert(metrics(LabelMetrics.MatchesDropped).value == oracle.leftOut)
    provider.close()
  }

  /** Nine in ten rows have one key. */
  private def hot(rows: Int, ticks: Int, seed: Int = 1) =
    JoinData(seed, rows, rows, keys = 30, hotLeft = 90, hotRight = 90, ticks = ticks, bytes = 60)

  private def small: TaskMemoryManager = TaskMemory.create(2 * MiB)

  // Each time that many rows are read, a run is written.
  Seq(100L * 1000, 64L << 20).foreach { bytes =>
    test(s"a hot key on both sides, in 2 MiB, $bytes bytes at a time") {
      failAfter(Span(120, Seconds)) {
        // 40,000 rows of 150 bytes on each side. A window has a hundredth of them, and then all.
        run(hot(40000, 100000), settings(second, 10 * second), 2, bytes, () => small)
        run(hot(40000, 100000), settings(2000 * second, 2000 * second), 2, bytes, () => small)
      }
    }

    test(s"rows of one key that share their times, in 2 MiB, $bytes bytes at a time") {
      failAfter(Span(120, Seconds)) {
        Seq(1, 3, 200).foreach { ticks =>
          run(hot(20000, ticks), settings(second, 10 * second), 2, bytes, () => small)
        }
      }
    }
  }

  test("memory that others take away and give back") {
    (1 to 4).foreach { seed =>
      val random = new Random(seed.toLong)
      var now = 2 * MiB
      var asked = 0
      val changing = () =>
        TaskMemory.changing(2 * MiB) { () =>
          asked += 1
          if (asked % 20 == 0) now = (2 * MiB) >> random.nextInt(5)
          now
        }
      run(hot(10000, Seq(5, 1000)(seed % 2), seed), settings(second, 100 * second), 3, 64L << 20, changing)
    }
  }

  test("batch DataFrames of a hot key pair what a micro-batch pairs, whatever the memory") {
    for (ticks <- Seq(1, 3, 1000); memory <- Seq(MiB, 256 * MiB)) {
      val data = hot(20000, ticks)
      val join = settings(second, 100 * second)
      val oracle = new Oracle(data, join.window)
      oracle.batch(0 until data.lefts, 0 until data.rights)
      val columns = columnsOf(join)
      // As Spark sorts them: see LabelJoinBatchExec.
      def sorted(n: Int, row: Int => (Long, Long)): Seq[Int] =
        (0 until n).sortBy(i => (row(i)._1, place(row(i)._2, i)))
      def projected(of: Seq[org.apache.spark.sql.catalyst.expressions.Attribute]) = {
        val to = UnsafeProjection.create(of, of)
        (row: InternalRow) => to(row): InternalRow
      }
      val manager = TaskMemory.create(memory)
      val merge = new BatchMerge(
        columns,
        join,
        data.leftRows(sorted(data.lefts, data.left)).map(projected(columns.left)),
        data.rightRows(sorted(data.rights, data.right)).map(projected(columns.right)),
        new RowMemory(manager)
      )
      val out = mutable.ArrayBuffer.empty[(Int, Int)]
      try merge.foreach(row => out += row.getInt(2) -> row.getInt(5))
      finally merge.close()
      assert(out.size == out.toSet.size && out.toSet == oracle.pairs.toSet, s"$ticks ticks, $memory bytes")
      assert(manager.getMemoryConsumptionForThisTask == 0)
    }
  }
}
