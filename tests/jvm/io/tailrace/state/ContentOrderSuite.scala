package io.tailrace.state

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.state.{RowBuffer, RowLayout}
import io.tailrace.testkit.{RowFixture, TestRow}

final class ContentOrderSuite extends AnyFunSuite with RowFixture {
  private final class Counting(rows: RowBuffer) extends ContentOrder(rows) {
    var comparisons = 0L

    override protected def compare(a: Int, b: Int): Int = {
      comparisons += 1
      super.compare(a, b)
    }
  }

  private def rows(random: Random, n: Int, keys: Int, times: Int): Seq[TestRow] = Seq.tabulate(n) { i =>
    val key = s"a key of more bytes than a prefix ${random.nextInt(keys)}"
    TestRow.of(key, random.nextInt(times).toLong, i.toLong, f"value ${random.nextInt(50)}%04d")
  }

  test("rows are ordered by key, time and bytes, in any order of arrival") {
    (1 to 20).foreach { seed =>
      val random = new Random(seed)
      val all = rows(random, random.nextInt(200), 1 + random.nextInt(4), 1 + random.nextInt(6))
      def sorted(rows: Seq[TestRow]): Seq[TestRow] = {
        val buffer = bufferOf(rows)
        val order = new ContentOrder(buffer).sorted
        assert(order.sorted.toSeq == rows.indices)
        order.zip(order.drop(1)).foreach { case (a, b) =>
          val byKey = buffer.compareKeys(a, b)
          val byValue = RowLayout.compareValues(buffer.base(a), buffer.at(a), buffer.base(b), buffer.at(b))
          val byTime = java.lang.Long.compare(buffer.time(a), buffer.time(b))
          assert(Seq(byKey, byTime, byValue).find(_ != 0).forall(_ < 0))
        }
        order.toSeq.map(TestRow.read(buffer, _).copy(seq = 0))
      }
      assert(sorted(random.shuffle(all)) == sorted(all))
    }
  }

  test("rows of one key and time are sorted in n log n comparisons") {
    val n = 20000
    Seq((1, 1), (1, 3), (2, 1)).foreach { case (keys, times) =>
      val order = new Counting(bufferOf(rows(new Random(3), n, keys, times)))
      order.sorted: Unit
      assert(order.comparisons > 0 && order.comparisons <= n * 15L)
    }
    val unique = new Counting(bufferOf(Seq.tabulate(1000)(i => TestRow.of(s"key $i", 0, i.toLong))))
    unique.sorted: Unit
    assert(unique.comparisons == 0)
  }
}
