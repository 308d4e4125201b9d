package io.tailrace.label

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.spark.sql.tailrace.TaskMemory
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.join.StoredJoinContext
import io.tailrace.state._
import io.tailrace.testkit._

/** Rows of several sections come in an order that their arrival has no part in. */
final class RowsInOrderSuite extends AnyFunSuite with RunFixture with JoinFixture {
  private val kind = StoreKind.LeftKeySorted
  private val keys = Seq("a", "b", "a key beyond the prefix", "a key beyond the prefix!")

  /** Runs with rows of few keys and few times, each of which arrives in some run. */
  private def runs(random: Random, rows: Int, times: Int): Seq[Seq[TestRow]] = {
    val all = Seq.tabulate(rows) { i =>
      // Whose values have one length.
      val value = f"${random.nextInt(20)}%08d"
      TestRow.of(keys(random.nextInt(keys.size)), random.nextInt(times).toLong, i.toLong, value)
    }
    all.grouped(1 + rows / (1 + random.nextInt(5))).toSeq
  }

  private def sectionsOf(runs: Seq[Seq[TestRow]]): Seq[LiveSection] =
    runs.flatMap(rows => newRun(7, kind -> bufferOf(rows)))

  private val order: Ordering[TestRow] = (x, y) => {
    val byKey = TestRow.byteOrder.compare(x.key, y.key)
    val byTime = java.lang.Long.compare(x.time, y.time)
    val byValue = TestRow.byteOrder.compare(x.value, y.value)
    Seq(byKey, byTime, byValue).find(_ != 0).getOrElse(0)
  }

  private def compared(rows: Seq[TestRow]) = rows.map(row => (row.key, row.time, row.value))

  test("by key, time and content, each row with its number and its section, whatever the memory") {
    for (seed <- 1 to 6; bytes <- Seq(1L, 700L, 1L << 20)) {
      val random = new Random(seed)
      val all = runs(random, 100, Seq(1, 4, 40)(seed % 3))
      val sections = sectionsOf(all)
      val memory = new RowMemory(TaskMemory.create(64L << 20))
      val store = open(newProvider(), 0)
      val context = StoredJoinContext(null, store, memory, bytes, Map.empty)
      val rows =
        new RowsInOrder(new MergedSections(sections, RunCursor.inOrder(kind.order), Long.MinValue), context)
      val chunk = new RowBuffer(memory)
      val found = new ArrayBuffer[TestRow]
      while (!rows.isEmpty) {
        val time = rows.time
        // Several in a buffer, and then in an empty one.
        if (found.size % 7 == 0) chunk.clear()
        assert(rows.appendTo(chunk))
        val row = TestRow.read(chunk, chunk.size - 1)
        assert(row.time == time)
        assert(TestRow.all(rows.section).contains(row))
        found += row
      }
      assert(compared(found.toSeq) == compared(all.flatten.sorted(order)))
      assert(found.toSet == all.flatten.toSet)
      Seq(rows, chunk).foreach(_.close())
      store.abort()
      closeRuns()
    }
  }

  test("the rows of one key from a time on, of sections that are opened when their time comes") {
    (1 to 20).foreach { seed =>
      val random = new Random(seed)
      val all = runs(random, 200, 60)
      val sections = random.shuffle(sectionsOf(all))
      val probe = bufferOf(all.flatten.head)
      val (first, last) = (random.nextInt(40).toLong, 40L + random.nextInt(30))
      val hidden = all.flatten.map(_.seq).filter(_ => random.nextInt(3) == 0).toSet
      val rows =
        new SectionRows(probe.base(0), probe.at(0), first, last, sections, cursor => hidden(cursor.seq))
      val found = new ArrayBuffer[TestRow]
      while (!rows.isEmpty) {
        found += TestRow.read(rows.head)
        assert(TestRow.all(rows.headSection).contains(found.last) && rows.time == found.last.time)
        rows.drop()
      }
      rows.close()
      val expected = all.flatten.filter { row =>
        row.key == all.head.head.key && row.time >= first && row.time <= last && !hidden(row.seq)
      }
      assert(found.map(_.time) == found.map(_.time).sorted)
      assert(found.size == expected.size && found.toSet == expected.toSet)
      closeRuns()
    }
  }
}
