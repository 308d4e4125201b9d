package io.tailrace.label

import org.apache.spark.sql.tailrace.TaskMemory
import org.apache.spark.unsafe.Platform
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.state.RowMemory
import io.tailrace.testkit.TestRow

class CandidatesSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private type Entry = (Long, Vector[Byte])

  private def withCandidates(body: Candidates => Unit): Unit = {
    val manager = TaskMemory.create(64L << 20)
    val candidates = new Candidates(new RowMemory(manager))
    try body(candidates)
    finally candidates.close()
    assert(manager.getMemoryConsumptionForThisTask == 0, "bytes of task memory are still taken")
  }

  /** Adds the entries as rows of a run, with a key, or as values alone. */
  private def fill(candidates: Candidates, entries: Seq[Entry], asRows: Boolean): Unit = {
    entries.zipWithIndex.foreach { case ((time, value), i) =>
      if (asRows) {
        candidates.add(TestRow(TestRow.key(s"k$i"), time, -i.toLong, value).layout, TestRow.At)
      } else candidates.add(time, value.toArray, TestRow.At, value.size)
    }
    candidates.settle()
  }

  private def contents(candidates: Candidates): Seq[Entry] = (0 until candidates.size).map { i =>
    val value = new Array[Byte](candidates.valueLength(i))
    Platform.copyMemory(
      candidates.base(i),
      candidates.valueOffset(i),
      value,
      TestRow.At,
      value.length.toLong
    )
    candidates.time(i) -> value.toVector
  }

  private def inOrder(entries: Seq[Entry]): Seq[Entry] =
    entries.sorted(Ordering.by((e: Entry) => e._1).orElseBy(_._2)(TestRow.byteOrder))

  private def check(batches: Seq[Entry]*): Unit = Seq(true, false).foreach { asRows =>
    withCandidates { candidates =>
      batches.foreach { entries =>
        candidates.clear()
        fill(candidates, entries, asRows)
        assert(contents(candidates) == inOrder(entries))
      }
    }
  }

  private def value(bytes: Int*): Vector[Byte] = bytes.map(_.toByte).toVector

  test("no candidate and one candidate match as many do") {
    check(Nil)
    check(Seq(5L -> value(1)))
    check(Nil, Seq(5L -> value(1)), Nil)
  }

  test("candidates are in the order of time, then of their unsigned bytes, a prefix first") {
    check(
      Seq(
        7L -> value(0),
        5L -> value(0xff),
        5L -> value(1),
        5L -> value(1, 0),
        5L -> value(),
        6L -> value(0),
        Long.MinValue -> value(9),
        Long.MaxValue -> value(9)
      )
    )
  }

  test("rows of equal times are put in the order of their content") {
    check(Seq(5L -> value(2), 5L -> value(1), 6L -> value(3)))
    check(Seq(4L -> value(9), 5L -> value(2), 5L -> value(1)))
  }

  test("few rows and many rows are sorted alike") {
    Seq(31, 32, 33, 34, 63, 64, 65, 1000).foreach { n =>
      val backwards = (1 to n).reverse.map(i => (i / 3).toLong -> value(i % 5, i % 251))
      check(backwards)
      check(backwards.sortBy(_._1))
      check(Seq.fill(n)(3L -> value(1)))
    }
  }

  test("after a clear, no earlier candidate is left") {
    val entry =
      Gen.zip(Gen.choose(-3L, 3L), Gen.listOf(Gen.oneOf(0, 1, 0x80, 0xff).map(_.toByte)).map(_.toVector))
    val some = Gen.oneOf(0, 1, 5, 32, 33, 70, 200).flatMap(Gen.listOfN(_, entry))
    forAll(Gen.choose(1, 5).flatMap(Gen.listOfN(_, some)))(batches => check(batches: _*))
  }

  test("a candidate is a copy: the caller may reuse the bytes of the row") {
    withCandidates { candidates =>
      val bytes = Array[Byte](1, 2, 3)
      candidates.add(1, bytes, TestRow.At, 3)
      bytes(0) = 9
      candidates.settle()
      assert(contents(candidates) == Seq(1L -> value(1, 2, 3)))
    }
  }
}
