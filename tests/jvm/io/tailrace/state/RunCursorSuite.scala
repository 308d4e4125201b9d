package io.tailrace.state

import org.apache.spark.SparkThrowable
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.{Damage, RunFixture, TestRow}

final class RunCursorSuite extends AnyFunSuite with RunFixture with ScalaCheckPropertyChecks {
  private val times = Gen.choose(-30L, 30L)

  private def sorted(live: LiveSection, rows: Vector[TestRow]): Vector[TestRow] = {
    val in = rows.filter(r => r.time >= live.section.minTime && r.time <= live.section.maxTime)
    if (live.section.kind.timeSorted) in.sortBy(r => (r.time, r.seq))
    else
      in.sorted(Ordering.by[TestRow, Vector[Byte]](_.key)(TestRow.byteOrder).orElseBy(_.time).orElseBy(_.seq))
  }

  test("a new cursor isn't valid before its first move") {
    assert(!cursorOf(newRun(1, StoreKind.LeftTimeSorted -> bufferOf(TestRow.of("k", 1, 1))).head).isValid)
  }

  test("a cursor ends where its section ends, with others before and after it") {
    val left = Vector.tabulate(30)(i => TestRow.of(s"l$i", i.toLong, i.toLong, s"left $i"))
    val right = Vector.tabulate(30)(i => TestRow.of(s"r$i", i.toLong, i.toLong, s"right $i"))
    val live = newRun(
      10,
      StoreKind.LeftTimeSorted -> bufferOf(left),
      StoreKind.LeftKeySorted -> bufferOf(left),
      StoreKind.RightKeySorted -> bufferOf(right)
    )
    assert(live.size == 9)
    live.foreach { s =>
      val rows = if (s.section.kind == StoreKind.RightKeySorted) right else left
      assert(TestRow.all(s) == sorted(s, rows))
    }
  }

  test("a seek by time goes to the first row of that time or later") {
    forAll(TestRow.rows(times, emptyKeys = true), Gen.choose(-35L, 35L), Gen.oneOf(1L, 9L, 100L)) {
      (rows, time, width) =>
        whenever(rows.nonEmpty) {
          val buffer = bufferOf(rows)
          newRun(width, StoreKind.LeftTimeSorted -> buffer).foreach { live =>
            val cursor = cursorOf(live)
            cursor.seekTime(time)
            assert(TestRow.rest(cursor) == sorted(live, rows).filter(_.time >= time))
          }
          buffer.close()
        }
    }
  }

  private def seek(cursor: RunCursor, key: Vector[Byte]): Unit =
    cursor.seekKey(TestRow(key, 0, 0, Vector.empty).layout, TestRow.At)

  test("a seek by key goes to the first row of that key or a greater one, forwards and back") {
    forAll(TestRow.rows(times), Gen.oneOf(1L, 9L, 100L)) { (rows, width) =>
      whenever(rows.nonEmpty) {
        val buffer = bufferOf(rows)
        newRun(width, StoreKind.RightKeySorted -> buffer).foreach { live =>
          val cursor = cursorOf(live)
          val keys = rows.map(_.key).distinct.take(10) ++ Seq(Vector(0.toByte), TestRow.key("b" * 400))
          keys.foreach { key =>
            seek(cursor, key)
            assert(TestRow.rest(cursor) == sorted(live, rows).filter(r => TestRow.byteOrder.gteq(r.key, key)))
          }
        }
        buffer.close()
      }
    }
  }

  test("a row in a run has the key, prefix, time and number of the row in the buffer") {
    forAll(TestRow.rows(times)) { rows =>
      whenever(rows.nonEmpty) {
        val buffer = bufferOf(rows)
        Seq(StoreKind.LeftTimeSorted, StoreKind.RightKeySorted)
          .flatMap(kind => newRun(9, kind -> buffer))
          .foreach { live =>
            val cursor = cursorOf(live)
            cursor.first()
            while (cursor.isValid) {
              val row = cursor.seq.toInt
              assert(cursor.keyPrefix == buffer.keyPrefix(row) && cursor.time == buffer.time(row))
              assert(cursor.compareKey(buffer.base(row), buffer.at(row)) == 0)
              assert(TestRow.read(cursor) == rows(row))
              cursor.next()
            }
          }
        buffer.close()
      }
    }
  }

  test("a row goes into a buffer with its key or without") {
    val rows =
      Vector(TestRow.of("a" * 500, 1, 1, "x" * 50000), TestRow.of("b", 2, 2, ""), TestRow.of("c", 3, 3, "y"))
    val cursor = cursorOf(newRun(10, StoreKind.RightKeySorted -> bufferOf(rows)).head)
    val (whole, bare) = (newBuffer(), newBuffer())
    cursor.first()
    while (cursor.isValid) {
      assert(whole.appendRow(cursor.base, cursor.at) == bare.appendWithoutKey(cursor.base, cursor.at))
      cursor.next()
    }
    assert(rows.indices.map(TestRow.read(whole, _)) == rows)
    assert(rows.indices.map(TestRow.read(bare, _)) == rows.map(_.copy(key = Vector.empty)))
  }

  test("a block that is damaged on the local disk is an error that names the file") {
    val rows =
      Vector.tabulate(2000)(i => TestRow.of(s"key $i", i.toLong, i.toLong, s"$i".hashCode.toString * 50))
    val live = newRun(1L << 40, StoreKind.LeftTimeSorted -> bufferOf(rows)).head
    Damage.flipBit(live.local.file, (live.local.file.length / 3).toInt)
    val error = intercept[Exception](TestRow.all(live)) match {
      case e: SparkThrowable => e
      case e => throw e
    }
    assert(error.getCondition == "TAILRACE_STATE_LOCAL_FILE")
    assert(error.getMessageParameters.get("file") == live.local.file.getPath)
  }
}
