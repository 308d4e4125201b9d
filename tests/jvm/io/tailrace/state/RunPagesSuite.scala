package io.tailrace.state

import scala.collection.mutable.ArrayBuffer

import org.scalacheck.{Gen, Shrink}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.{RunFixture, TestRow}

/** [[RunCursor]] over sections of many pages. */
final class RunPagesSuite extends AnyFunSuite with RunFixture with ScalaCheckPropertyChecks {
  import StoreKind.{LeftKeySorted, LeftTimeSorted, RightKeySorted}

  /** Rows of 712 bytes, of which 23 make a page; the gaps between their keys and times are for seeks. */
  private val PerPage = 23

  private def row(i: Int): TestRow =
    TestRow(TestRow.key(f"a common beginning ${2 * i}%06d"), 2L * i, i.toLong, Vector.fill(656)(i.toByte))

  private def rows(n: Int): Vector[TestRow] = Vector.tabulate(n)(row)

  private def probe(key: Vector[Byte]): Array[Byte] = TestRow(key, 0, 0, Vector.empty).layout
  private def keyAt(twice: Int): Vector[Byte] = TestRow.key(f"a common beginning $twice%06d")
  private def seek(cursor: RunCursor, key: Vector[Byte]): Unit = cursor.seekKey(probe(key), TestRow.At)
  private def advance(cursor: RunCursor, key: Vector[Byte]): Unit =
    cursor.advanceTo(probe(key), TestRow.At)

  private def here(cursor: RunCursor): Option[TestRow] =
    if (cursor.isValid) Some(TestRow.read(cursor)) else None

  test("the rows are of the size that makes 23 a page") {
    assert(row(0).layout.length * PerPage == PageBuffer.Capacity - PageBuffer.HeaderLength)
  }

  test("seeks to the first, a middle and the last row of each page, and between any two rows") {
    val all = rows(4 * PerPage + 5)
    val byKey = cursorOf(newSection(RightKeySorted, all))
    val byTime = cursorOf(newSection(LeftTimeSorted, all))
    (-1 to 2 * all.size).foreach { twice =>
      val expected = all.lift((twice + 1) / 2)
      if (twice >= 0) {
        seek(byKey, keyAt(twice))
        assert(here(byKey) == expected, s"key $twice")
      }
      byTime.seekTime(twice.toLong)
      assert(here(byTime) == expected, s"time $twice")
    }
    seek(byKey, TestRow.key("a"))
    assert(here(byKey) == all.headOption)
    seek(byKey, TestRow.key("b"))
    assert(!byKey.isValid)
    byTime.seekTime(Long.MinValue)
    assert(here(byTime) == all.headOption)
    byTime.seekTime(Long.MaxValue)
    assert(!byTime.isValid)
  }

  test("a cursor at the end goes back to the beginning and to any row") {
    val all = rows(3 * PerPage)
    val cursor = cursorOf(newSection(RightKeySorted, all))
    cursor.first()
    assert(TestRow.rest(cursor) == all && !cursor.isValid)
    seek(cursor, keyAt(2 * PerPage))
    assert(TestRow.rest(cursor) == all.drop(PerPage))
    cursor.first()
    assert(TestRow.rest(cursor) == all)
  }

  test("a seek goes to the first row of a key that fills several pages") {
    val hot = Vector.tabulate(5 * PerPage)(i => row(7).copy(time = i.toLong, seq = i.toLong))
    val all = row(3) +: hot :+ row(9).copy(seq = 1000)
    val cursor = cursorOf(newSection(RightKeySorted, all))
    seek(cursor, row(7).key)
    assert(TestRow.rest(cursor) == all.drop(1))
    cursor.first()
    advance(cursor, row(7).key)
    assert(TestRow.rest(cursor) == all.drop(1))
    advance(cursor, row(9).key)
    cursor.first()
    advance(cursor, row(9).key)
    assert(TestRow.rest(cursor) == all.takeRight(1))
  }

  test("a seek goes to the first row of a time that fills several pages") {
    val all = Vector.tabulate(5 * PerPage)(i => row(7).copy(seq = i.toLong))
    val cursor = cursorOf(newSection(LeftTimeSorted, row(3).copy(seq = 0) +: all.tail))
    cursor.seekTime(14)
    assert(TestRow.rest(cursor) == all.tail)
  }

  test("no seek reaches the section's neighbours in the run") {
    // Both neighbours have rows with keys and times on all sides of the section's.
    val around = rows(6 * PerPage)
    val middle = around.slice(2 * PerPage + 3, 4 * PerPage + 9)
    val writer = new RunWriter(new java.io.File(directory, "neighbours.run"))
    val parts = Seq(
      (LeftTimeSorted, 3L, around),
      (LeftTimeSorted, 4L, middle),
      (LeftTimeSorted, 5L, around),
      (LeftKeySorted, 3L, around),
      (LeftKeySorted, 4L, middle),
      (LeftKeySorted, 5L, around),
      (RightKeySorted, -1L, around),
      (RightKeySorted, 0L, middle)
    )
    parts.foreach { case (kind, bucket, some) =>
      writer.begin(kind, bucket)
      some.foreach(r => writer.append(r.layout, TestRow.At))
      writer.end()
    }
    writer.finish()
    writer.close()
    opening(new java.io.File(directory, "neighbours.run"), writer.sections).zip(parts).foreach {
      case (live, (kind, _, some)) =>
        val cursor = cursorOf(live)
        Seq(0, 1, 2 * PerPage, 5 * PerPage, 8 * PerPage, 12 * PerPage - 1, 12 * PerPage + 10).foreach {
          twice =>
            val rest = some.dropWhile(_.time < twice)
            if (kind.timeSorted) cursor.seekTime(twice.toLong) else seek(cursor, keyAt(twice))
            assert(TestRow.rest(cursor) == rest, s"${live.section}: $twice")
            if (!kind.timeSorted) {
              cursor.first()
              advance(cursor, keyAt(twice))
              assert(TestRow.rest(cursor) == rest, s"${live.section}: forwards to $twice")
            }
        }
    }
  }

  // A key must not be the beginning of another one.
  private implicit def unshrunk[T]: Shrink[T] = Shrink.withLazyList(_ => LazyList.empty)

  test("advances and steps give the same rows as a naive scan") {
    // Keys share their first eight bytes and more, or nothing.
    val part = Gen.oneOf("", "a", "b", "\u0001", "common prefix ")
    val keys = Gen.listOf(part).map(p => TestRow.key(p.mkString))
    val some = Gen.choose(1, 300).flatMap { n =>
      Gen.listOfN(n, Gen.zip(keys, Gen.frequency(9 -> Gen.choose(0, 900), 1 -> Gen.choose(0, 30000))))
    }
    // None: one step; otherwise advance to a key, which may be one that is behind.
    val moves = Gen.listOfN(40, Gen.frequency(1 -> Gen.const(None), 3 -> keys.map(Some(_))))
    forAll(some, moves, Gen.oneOf(true, false), minSuccessful(100)) { (found, script, ascending) =>
      val all = found.zipWithIndex
        .map { case ((key, size), i) => TestRow(key, i.toLong, i.toLong, Vector.fill(size)(i.toByte)) }
        .sorted(Ordering.by[TestRow, Vector[Byte]](_.key)(TestRow.byteOrder).orElseBy(_.time))
      val probes = if (ascending) script.sorted(Ordering.Option(TestRow.byteOrder)) else script
      val cursor = cursorOf(newSection(RightKeySorted, all))
      cursor.first()
      var left = all
      probes.foreach { move =>
        move match {
          case Some(key) =>
            advance(cursor, key)
            left = left.dropWhile(r => TestRow.byteOrder.lt(r.key, key))
          case None =>
            if (left.nonEmpty) {
              cursor.next()
              left = left.tail
            }
        }
        assert(here(cursor) == left.headOption)
      }
      assert(TestRow.rest(cursor) == left)
      closeRuns()
    }
  }

  test("cursors don't share a buffer, also after one was closed twice") {
    val expected =
      Vector.tabulate(4)(c => rows(3 * PerPage).map(r => r.copy(value = r.value.map(_ => c.toByte))))
    val live = expected.map(newSection(RightKeySorted, _))
    val closed = live(0).cursor()
    closed.first()
    closed.close()
    closed.close()
    assert(!closed.isValid)
    val open = live.map(cursorOf)
    val found = Vector.fill(4)(new ArrayBuffer[TestRow])
    open.foreach(_.first())
    while (open.exists(_.isValid)) {
      open.indices.filter(open(_).isValid).foreach { c =>
        found(c) += TestRow.read(open(c))
        open(c).next()
      }
    }
    assert(found.map(_.toVector) == expected)
    open.foreach { cursor =>
      cursor.close()
      cursor.close()
    }
    val buffers = Seq.fill(100)(PageBuffer.take())
    assert(buffers.distinct.size == buffers.size)
    buffers.foreach(PageBuffer.giveBack)
  }
}
