package io.tailrace.state

import java.io.File

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.{RunFixture, TestRow}

final class NewestRowsSuite extends AnyFunSuite with RunFixture with ScalaCheckPropertyChecks {
  import StoreKind.{LeftTimeSorted, RightNewest}

  private def merged(newest: NewestRows, runs: Seq[Seq[TestRow]]): Seq[TestRow] = {
    val inputs = runs.flatMap(rows => newRun(Long.MaxValue, RightNewest -> bufferOf(rows)))
    val file = new File(directory, "merged.run")
    file.delete()
    val writer = new RunWriter(file)
    val sections =
      try
        Compaction.merge(
          inputs,
          newest,
          new GoneMerge(new LivingRows(inputs, Expiry(0, 0)), Nil, isFull = true),
          writer
        )
      finally writer.close()
    val out = opening(file, sections)
    sections.foreach(s => assert(s.keys == out.flatMap(TestRow.all).map(_.key).distinct.size))
    try out.flatMap(TestRow.all)
    finally {
      closeRuns()
      closeBuffers()
    }
  }

  test("of a key's rows up to a time one stays, the last by content of the newest, and all after it") {
    val row = for {
      key <- Gen.oneOf("a", "b", "a longer key than a prefix")
      time <- Gen.choose(1L, 12L)
      value <- Gen.choose(0, 3)
    } yield (key, time, value)
    val run = Gen.choose(1, 12).flatMap(Gen.listOfN(_, row))
    forAll(
      Gen.choose(1, 4).flatMap(Gen.listOfN(_, run)),
      Gen.choose(0L, 13L),
      Gen.oneOf(Long.MinValue, 0L, 4L)
    ) { (runs, through, gone) =>
      val seqs = Iterator.from(0)
      val rows = runs.map(_.map { case (key, time, value) =>
        TestRow.of(key, time, seqs.next().toLong, value.toString)
      })
      val all = rows.flatten.filter(_.time > gone)
      val (settled, open) = all.partition(_.time <= through)
      val kept =
        settled.groupBy(_.key).values.map(_.map(r => (r.time, new String(r.value.toArray))).max).toSeq
      val out = merged(NewestRows(through, gone), rows)
      assert(out.filter(_.time > through).toSet == open.toSet)
      val outSettled = out.filter(_.time <= through)
      assert(outSettled.map(_.key).distinct.size == outSettled.size)
      assert(outSettled.map(r => (r.time, new String(r.value.toArray))).sorted == kept.sorted)
      assert(
        out == out.sortBy(r => (r.key, r.time, r.seq))(
          Ordering.Tuple3(TestRow.byteOrder, Ordering.Long, Ordering.Long)
        )
      )
    }
  }

  private def section(bytes: Long, rows: Long = 100, keys: Long = 100, maxTime: Long = 0, schema: Int = 0) =
    Section(RightNewest.name, 0, rows, 0, maxTime, bytes, schema = schema, keys = keys)
  private def due(fanIn: Int, through: Long, sections: Section*): Seq[Int] = {
    val runs = sections.zipWithIndex.map { case (s, i) => Run(s"r$i", 1, 0, Seq(s)) }
    NewestRows.due(Manifest(1, 0, runs, through), fanIn).map(_.name.drop(1).toInt)
  }
  private val mega = 1L << 20

  test("all runs are due when those behind the first one are as large") {
    assert(due(32, 10, section(100 * mega), section(99 * mega)).isEmpty)
    assert(due(32, 10, section(100 * mega), section(60 * mega), section(40 * mega)) == Seq(0, 1, 2))
    assert(due(32, 10).isEmpty)
    assert(
      NewestRows
        .due(Manifest(1, 0, Seq(Run("l", 1, 0, Seq(Section(LeftTimeSorted.name, 0, 1, 0, 0, 1))))), 2)
        .isEmpty
    )
  }

  test("a few small runs aren't worth a merge") {
    assert(due(32, 10, Seq.fill(7)(section(1000)): _*).isEmpty)
    assert(due(32, 10, Seq.fill(8)(section(1000)): _*) == (0 until 8))
    assert(due(3, 10, Seq.fill(3)(section(1000)): _*) == (0 until 3))
  }

  test("a large run with many rows of few keys is due by itself when nobody looks between them") {
    val burst = section(50 * mega, rows = 1000, keys = 10, maxTime = 10)
    assert(due(32, 9, section(100 * mega), burst).isEmpty)
    assert(due(32, 10, section(100 * mega), burst) == Seq(1))
    assert(due(32, 10, section(100 * mega), burst.copy(keys = 500)).isEmpty)
  }

  test("runs of other columns stay as they are") {
    val runs = Seq(section(100), section(100 * mega, schema = 1), section(100 * mega, schema = 1))
    assert(due(32, 10, runs: _*) == Seq(1, 2))
  }
}
