package io.tailrace.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.types._
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.{RunFixture, TestRow}

final class BufferedRowsSuite extends AnyFunSuite with RunFixture with ScalaCheckPropertyChecks {
  private val times = Gen.choose(-30L, 30L)
  private val Unexpired = Expiry(Long.MinValue, Long.MinValue)

  private def read(
      sections: Seq[LiveSection],
      expiredThrough: Long = Long.MinValue
  ): Seq[(String, TestRow)] = {
    val rows = new BufferedRows(sections, Expiry(expiredThrough, Long.MinValue))
    val found = new ArrayBuffer[(String, TestRow)]
    rows.foreach { pair =>
      val k = pair.key
      found += k.getUTF8String(0).toString ->
        TestRow(k.getBinary(3).toVector, k.getLong(1), k.getLong(2), pair.value.getBinary(0).toVector)
    }
    rows.close()
    found.toSeq
  }

  private def sorted(rows: Seq[(String, TestRow)]) = rows.sortBy { case (store, r) => (store, r.time, r.seq) }

  test("each row comes once, with its store, time, number, key and value") {
    forAll(TestRow.rows(times, emptyKeys = true), TestRow.rows(times)) { (left, right) =>
      whenever(left.nonEmpty || right.nonEmpty) {
        val buffers = Seq(bufferOf(left), bufferOf(right))
        val live = newRun(7, StoreKind.LeftTimeSorted -> buffers(0), StoreKind.RightKeySorted -> buffers(1))
        val expected = left.map("left-time-sorted" -> _) ++ right.map("right-key-sorted" -> _)
        assert(sorted(read(live)) == sorted(expected))
        buffers.foreach(_.close())
      }
    }
  }

  test("expired left rows don't come, and right rows do, whose sections are still there") {
    forAll(TestRow.rows(times), Gen.choose(-31L, 31L)) { (rows, through) =>
      whenever(rows.nonEmpty) {
        val buffer = bufferOf(rows)
        val live = newRun(
          7,
          StoreKind.LeftTimeSorted -> buffer,
          StoreKind.LeftKeySorted -> buffer,
          StoreKind.RightKeySorted -> buffer
        )
        val left = rows.filter(_.time > through)
        val expected = left.map("left-time-sorted" -> _) ++ left.map("left-key-sorted" -> _) ++
          rows.map("right-key-sorted" -> _)
        assert(sorted(read(live, through)) == sorted(expected))
        buffer.close()
      }
    }
  }

  test("marks and the rows that they mark as gone don't come") {
    forAll(TestRow.rows(times), TestRow.rows(times), Gen.choose(1, 4)) { (left, right, share) =>
      whenever(left.nonEmpty && right.nonEmpty) {
        val gone = right.filter(_.seq % share == 0)
        val marks = gone.map(r => TestRow(Vector.empty, 3, r.seq, Vector.empty))
        val buffers = Seq(left, right, marks).map(bufferOf(_))
        val live = newRun(
          7,
          StoreKind.HeldLeft -> buffers(0),
          StoreKind.HeldRight -> buffers(1),
          StoreKind.JoinedRight -> buffers(2)
        )
        val expected = left.map("held-left" -> _) ++ right.diff(gone).map("held-right" -> _)
        assert(sorted(read(live)) == sorted(expected))
        buffers.foreach(_.close())
      }
    }
  }

  test("without sections there are no rows") {
    assert(read(Nil).isEmpty)
    assertThrows[NoSuchElementException](new BufferedRows(Nil, Unexpired).next())
  }

  test("an iterator can be closed before its end") {
    val rows = new BufferedRows(
      newRun(1, StoreKind.LeftTimeSorted -> bufferOf(TestRow.of("a", 1, 1), TestRow.of("b", 2, 2))),
      Unexpired
    )
    rows.next()
    rows.close()
    rows.close()
  }

  test("a row stays the same when the next one is taken") {
    val rows = new BufferedRows(
      newRun(
        10,
        StoreKind.LeftTimeSorted -> bufferOf(TestRow.of("a", 1, 1, "x"), TestRow.of("b", 2, 2, "y"))
      ),
      Unexpired
    )
    val first = rows.next()
    val (key, value) = (first.key, first.value)
    rows.next()
    assert(key.getLong(1) == 1 && new String(value.getBinary(0)) == "x")
    rows.close()
  }

  test("the provider recognizes its own stores by their key schema, whatever is nullable in it") {
    assert(BufferedRows.isKeySchema(BufferedRows.KeySchema))
    assert(BufferedRows.isKeySchema(StructType(BufferedRows.KeySchema.map(_.copy(nullable = true)))))
    assert(!BufferedRows.isKeySchema(BufferedRows.ValueSchema))
    assert(!BufferedRows.isKeySchema(new StructType()))
    assert(!BufferedRows.isKeySchema(StructType(BufferedRows.KeySchema.tail)))
    assert(!BufferedRows.isKeySchema(StructType(BufferedRows.KeySchema.init).add("key", StringType)))
  }
}
