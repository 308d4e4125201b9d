package io.tailrace.state

import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.{RowFixture, TestRow}

final class RowSortSuite extends AnyFunSuite with RowFixture with ScalaCheckPropertyChecks {
  private val times =
    Gen.oneOf(Gen.choose(-3L, 3L), Gen.choose(-1L << 40, 1L << 40), Arbitrary.arbitrary[Long])
  private val anyRows = TestRow.rows(times, emptyKeys = true)
  private val byKey: Ordering[TestRow] = Ordering.by[TestRow, Vector[Byte]](_.key)(TestRow.byteOrder)

  /** `seq` is the row's number, so that a stable sort is one that sorts by it at last. */
  private def check(rows: Vector[TestRow], order: Ordering[TestRow])(sort: RowBuffer => Array[Int]): Unit = {
    val buffer = bufferOf(rows)
    val expected = rows.sorted(order.orElseBy(_.seq)).map(_.seq.toInt)
    assert(sort(buffer).toSeq == expected)
    buffer.close()
  }

  test("the sort by time is stable") {
    forAll(anyRows)(rows => check(rows, Ordering.by((r: TestRow) => r.time))(RowSort.byTime))
  }

  test("the sort by key and time is stable") {
    forAll(anyRows)(rows => check(rows, byKey.orElseBy(_.time))(RowSort.byKey))
  }

  test("the sort by bucket, key and time is stable") {
    forAll(anyRows, Gen.oneOf(1L, 2L, 1000L, 1L << 41)) { (rows, width) =>
      val order = Ordering.by((r: TestRow) => Math.floorDiv(r.time, width)).orElse(byKey).orElseBy(_.time)
      check(rows, order)(RowSort.byBucketAndKey(_, width))
    }
  }

  test("rows are sorted by sequence number last, in any order of arrival") {
    forAll(anyRows, Arbitrary.arbitrary[Long]) { (rows, seed) =>
      val shuffled = new scala.util.Random(seed).shuffle(rows)
      def seqs(sort: RowBuffer => Array[Int]): Seq[Long] = {
        val buffer = bufferOf(shuffled)
        try sort(buffer).toSeq.map(shuffled(_).seq)
        finally buffer.close()
      }
      assert(seqs(RowSort.byTimeAndSeq) == rows.sortBy(r => (r.time, r.seq)).map(_.seq))
      val sorted = rows.sorted(byKey.orElseBy(_.time).orElseBy(_.seq))
      assert(seqs(RowSort.byKeyTimeAndSeq) == sorted.map(_.seq))
    }
  }

  test("the least and the greatest times are sorted") {
    val times = Seq(0L, Long.MaxValue, -1L, Long.MinValue, 1L, Long.MaxValue, Long.MinValue)
    val rows = times.zipWithIndex.map { case (t, i) => TestRow.of("k", t, i.toLong) }.toVector
    check(rows, Ordering.by((r: TestRow) => r.time))(RowSort.byTime)
  }

  test("many rows whose keys share more than eight bytes are sorted") {
    val random = new scala.util.Random(7)
    val rows = Vector.tabulate(20000) { i =>
      TestRow.of("a common prefix " + random.nextInt(500), random.nextInt(1000).toLong - 500, i.toLong)
    }
    check(rows, byKey.orElseBy(_.time))(RowSort.byKey)
  }

  test("rows without a key come before all others, also before keys of zeros") {
    val zeros = Vector(0.toByte)
    val none = Vector.empty[Byte]
    val rows = Vector(zeros, none, zeros, none).zipWithIndex.map { case (k, i) =>
      TestRow(k, i.toLong, i.toLong, none)
    }
    assert(RowSort.byKey(bufferOf(rows)).toSeq == Seq(1, 3, 0, 2))
  }

  test("no rows and one row are sorted") {
    assert(RowSort.byKey(newBuffer()).isEmpty)
    assert(RowSort.byTime(newBuffer()).isEmpty)
    assert(RowSort.byBucketAndKey(bufferOf(TestRow.of("k", -5, 0)), 2).toSeq == Seq(0))
  }

  test("only the rows since the last clear are sorted") {
    val buffer = bufferOf(Vector.tabulate(2000)(i => TestRow.of(s"old $i", -i.toLong, i.toLong)))
    buffer.clear()
    Seq(TestRow.of("b", 2, 0), TestRow.of("a", 3, 1)).foreach(_.appendTo(buffer))
    assert(RowSort.byTime(buffer).toSeq == Seq(0, 1))
    assert(RowSort.byKey(buffer).toSeq == Seq(1, 0))
  }
}
