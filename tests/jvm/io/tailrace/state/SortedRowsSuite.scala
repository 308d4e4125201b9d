package io.tailrace.state

import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.{RunFixture, TestRow}

final class SortedRowsSuite extends AnyFunSuite with RunFixture with ScalaCheckPropertyChecks {
  private val times = Gen.oneOf(Gen.choose(-300L, 300L), Gen.choose(-3L, 3L), Arbitrary.arbitrary[Long])

  private def read(sorted: SortedRows): Seq[TestRow] = sorted.order.toSeq.map(TestRow.read(sorted.rows, _))

  test("the chosen rows are in the order of all rows") {
    forAll(TestRow.rows(times), Gen.oneOf(StoreKind.all), Gen.choose(1, 5)) { (rows, kind, share) =>
      val buffer = bufferOf(rows)
      val all = read(SortedRows.all(kind, buffer, 7))
      val some = SortedRows.some(kind, buffer, 7, row => buffer.seq(row) % share == 0)
      assert(read(some) == all.filter(_.seq % share == 0))
      buffer.close()
    }
  }

  test("rows that are sorted by key already are sorted by bucket, and keep their order in it") {
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

  test("only rows of a key-sorted store can be sorted already") {
    assertThrows[IllegalArgumentException] {
      SortedRows.ofSorted(StoreKind.HeldLeft, newBuffer(), Array.empty[Int], 1)
    }
  }

  private val widths = Gen.oneOf(1L, 7L, 100L, 1L << 45)

  private val byKey: Ordering[TestRow] =
    Ordering.by[TestRow, Vector[Byte]](_.key)(TestRow.byteOrder).orElseBy(_.time).orElseBy(_.seq)
  private val byTime: Ordering[TestRow] = Ordering.by((r: TestRow) => r.time).orElseBy(_.seq)

  /** Checks the sections of one store, for any buckets. */
  private def check(kind: StoreKind, live: Seq[LiveSection], rows: Vector[TestRow]): Unit = {
    val found = live.map(s => s -> TestRow.all(s))
    val order = if (kind.timeSorted) byTime else byKey
    assert(found.flatMap(_._2).sorted(byTime) == rows.sorted(byTime))
    found.foreach { case (s, in) =>
      assert(s.section.store == kind.name)
      assert(in == in.sorted(order))
      assert(s.section.rows == in.size)
      assert(s.section.minTime == in.map(_.time).min)
      assert(s.section.maxTime == in.map(_.time).max)
      assert(s.section.bytes == in.map(r => r.layout.length).sum)
      assert(s.section.expiredRows == 0)
    }
    assert(live.map(_.section.bucket) == live.map(_.section.bucket).distinct.sorted)
    live.zip(live.drop(1)).foreach { case (a, b) => assert(a.section.maxTime < b.section.minTime) }
    assert(live.size <= 64)
  }

  StoreKind.all.foreach { kind =>
    test(s"${kind.name}: each row is in one section, in order, and sections are apart in time") {
      // Only a time-sorted store has rows without a key.
      forAll(TestRow.rows(times, emptyKeys = kind.timeSorted), widths) { (rows, width) =>
        whenever(rows.nonEmpty) {
          val buffer = bufferOf(rows)
          check(kind, newRun(width, kind -> buffer), rows)
          buffer.close()
        }
      }
    }
  }

  test("each of several stores in one run has its rows") {
    forAll(TestRow.rows(times, emptyKeys = true), TestRow.rows(times)) { (left, right) =>
      whenever(left.nonEmpty || right.nonEmpty) {
        val buffers = Seq(bufferOf(left), bufferOf(right))
        val live = newRun(
          10,
          StoreKind.LeftTimeSorted -> buffers(0),
          StoreKind.LeftKeySorted -> newBuffer(),
          StoreKind.RightKeySorted -> buffers(1)
        )
        val (l, r) = live.partition(_.section.kind == StoreKind.LeftTimeSorted)
        check(StoreKind.LeftTimeSorted, l, left)
        check(StoreKind.RightKeySorted, r, right)
        buffers.foreach(_.close())
      }
    }
  }

  test("rows of one bucket width of time share a section, by the floor of their time") {
    val rows = Vector(-11L, -10L, -1L, 0L, 9L, 10L).zipWithIndex.map { case (t, i) =>
      TestRow.of("k", t, i.toLong)
    }
    val sections = newRun(10, StoreKind.RightKeySorted -> bufferOf(rows)).map(_.section)
    assert(sections.map(s => (s.bucket, s.rows)) == Seq((-2L, 1L), (-1L, 2L), (0L, 2L), (1L, 1L)))
  }

  test("a wide span of time makes wider buckets, at most 64 of them") {
    Seq(1L, 1000L, 1L << 30, 1L << 50).foreach { step =>
      Seq(0L, -500L * step, -1000L * step, 37L).foreach { start =>
        val rows = Vector.tabulate(1000)(i => TestRow.of("k", start + i * step, i.toLong))
        val live = newRun(1, StoreKind.RightKeySorted -> bufferOf(rows))
        check(StoreKind.RightKeySorted, live, rows)
        assert(live.size > 16)
      }
    }
  }

  test("all of time is at most 64 buckets") {
    val rows = Vector.tabulate(256)(i => TestRow.of("k", Long.MinValue + i * (1L << 56), i.toLong)) :+
      TestRow.of("k", Long.MaxValue, 256)
    check(StoreKind.LeftTimeSorted, newRun(1, StoreKind.LeftTimeSorted -> bufferOf(rows)), rows)
  }

  test("keys and values larger than any buffer are written, growing and shrinking") {
    val sizes = Seq(10, 60, 70, 5000, 3, 300000, 0, 4096, 4097)
    val rows = sizes.zipWithIndex.map { case (n, i) =>
      TestRow(TestRow.key("k" * n), i.toLong, i.toLong, Vector.fill(n * 3)(i.toByte))
    }.toVector
    StoreKind.all.foreach(kind => check(kind, newRun(100, kind -> bufferOf(rows)), rows))
  }

  test("rows with equal key and time stay apart") {
    val rows = Vector.tabulate(5)(i => TestRow.of("k", 3, i.toLong, s"v$i"))
    StoreKind.all.foreach(kind => check(kind, newRun(100, kind -> bufferOf(rows)), rows))
  }

  test("stores must come in the order of their ids") {
    val rows = bufferOf(TestRow.of("k", 1, 1))
    assertThrows[IllegalArgumentException] {
      newRun(1, StoreKind.RightKeySorted -> rows, StoreKind.LeftTimeSorted -> rows)
    }
    assertThrows[IllegalArgumentException] {
      newRun(1, StoreKind.RightKeySorted -> rows, StoreKind.RightKeySorted -> rows)
    }
  }
}
