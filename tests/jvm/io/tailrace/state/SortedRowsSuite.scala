package io.tailrace.state

import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.{RowFixture, TestRow}

final class SortedRowsSuite extends AnyFunSuite with RowFixture with ScalaCheckPropertyChecks {
  private val times = Gen.oneOf(Gen.choose(-300L, 300L), Gen.choose(-3L, 3L), Arbitrary.arbitrary[Long])

  private def read(sorted: SortedRows): Seq[TestRow] = sorted.order.toSeq.map(TestRow.read(sorted.rows, _))

  test("some of the rows: those of all that are chosen, in the same order") {
    forAll(TestRow.rows(times), Gen.oneOf(StoreKind.all), Gen.choose(1, 5)) { (rows, kind, share) =>
      val buffer = bufferOf(rows)
      val all = read(SortedRows.all(kind, buffer, 7))
      val some = SortedRows.some(kind, buffer, 7, row => buffer.seq(row) % share == 0)
      assert(read(some) == all.filter(_.seq % share == 0))
      buffer.close()
    }
  }

  test("rows that are sorted by key already: by bucket, then as they are") {
    forAll(TestRow.rows(times), Gen.oneOf(1L, 100L, 1L << 45), Gen.choose(1, 5)) { (rows, width, share) =>
      val buffer = bufferOf(rows)
      val chosen = RowSort.byKeyTimeAndSeq(buffer).filter(buffer.seq(_) % share == 0)
      val sorted = SortedRows.ofSorted(StoreKind.HeldRight, buffer, chosen, width)
      val expected = chosen.toSeq
        .map(TestRow.read(buffer, _))
        .sortBy(r => Math.floorDiv(r.time, sorted.bucketWidth))
      assert(read(sorted) == expected && sorted.bucketWidth >= width)
      buffer.close()
    }
  }

  test("few rows over a long time get few buckets") {
    val buffer = bufferOf((0 until 1000).map(i => TestRow.of(s"k$i", i * 1000L, i.toLong)))
    def buckets(rowsPerBucket: Int): Int = {
      val sorted = SortedRows.all(StoreKind.HeldRight, buffer, 1, rowsPerBucket)
      (0 until 1000).map(sorted.bucket).distinct.size
    }
    assert(buckets(1) > 32 && buckets(1) <= 64)
    assert(buckets(100) >= 8 && buckets(100) <= 11)
    assert(buckets(5000) <= 2)
  }

  test("only stores that are sorted by key can be sorted so") {
    assertThrows[IllegalArgumentException] {
      SortedRows.ofSorted(StoreKind.HeldLeft, newBuffer(), Array.empty[Int], 1)
    }
  }
}
