package io.tailrace.state

import java.io.File

import scala.collection.mutable

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.{RunFixture, TestRow}

final class GoneMergeSuite extends AnyFunSuite with RunFixture with ScalaCheckPropertyChecks {
  import StoreKind._

  private def mark(of: TestRow): TestRow = TestRow(Vector.empty, of.time, of.seq, Vector.empty)

  /** A version of the state whose runs are in memory of this test alone.
    *
    * @param left  left rows up to this time have come out
    * @param right and right rows up to this time have been passed
    */
  private final class Version(
      val runs: Seq[Seq[LiveSection]],
      left: Long = Long.MinValue,
      right: Long = Long.MinValue
  ) {
    val manifest: Manifest = Manifest(
      1,
      left,
      runs.zipWithIndex.map { case (sections, i) =>
        Run(sections.head.local.name, 1, 0, sections.map(_.section), i)
      },
      rightExpiredThrough = right
    )

    val state = new LoadedState(manifest, runs.map(_.head.local), None)

    def rows(kind: StoreKind): Seq[TestRow] =
      runs.flatten.filter(_.section.kind == kind).flatMap(TestRow.all)

    /** Rows that aren't marked. */
    def living: Set[TestRow] = {
      val gone = rows(GoneLeft).map(_.seq).toSet
      rows(LeftKeySorted).filterNot(r => gone(r.seq)).toSet
    }

    def merged(from: Int, until: Int): Version = {
      val inputs = runs.slice(from, until).flatten
      val file = new File(directory, s"merged-${Version.number.next()}.run")
      val writer = new RunWriter(file)
      val (newest, gone) = (NewestRows(Long.MinValue, Long.MinValue), GoneMerge.of(state, inputs))
      val sections =
        try Compaction.merge(inputs, newest, gone, writer)
        finally writer.close()
      val out = if (sections.isEmpty) Nil else Seq(opening(file, sections))
      new Version(runs.take(from) ++ out ++ runs.drop(until), left, right)
    }
  }

  private object Version {
    val number: Iterator[Int] = Iterator.from(0)
  }

  /** Each run has some rows, and marks of rows of the runs before it and of its own. */
  private val streams = for {
    runs <- Gen.choose(1, 5)
    rows <- Gen.listOfN(runs, Gen.listOfN(6, Gen.zip(Gen.oneOf("a", "b", "c"), Gen.choose(1L, 30L))))
    dies <- Gen.listOfN(runs * 6, Gen.choose(0, 2 * runs))
  } yield (rows, dies)

  private def versionOf(rows: Seq[Seq[(String, Long)]], dies: Seq[Int]): Version = {
    val alive = mutable.ArrayBuffer.empty[(TestRow, Int)]
    new Version(rows.zipWithIndex.map { case (some, run) =>
      val come = some.zipWithIndex.map { case ((key, time), i) =>
        TestRow.of(key, time, run * 100L + i, s"$run $i")
      }
      alive ++= come.zipWithIndex.map { case (row, i) => row -> Math.max(run, dies(run * 6 + i)) }
      val marks = alive.filter(_._2 == run).map(of => mark(of._1)).toSeq
      newRun(10, LeftKeySorted -> bufferOf(come), GoneLeft -> bufferOf(marks))
    })
  }

  test("merges of neighbouring runs, one after the other, keep the rows that count, and no mark in the end") {
    forAll(streams, Gen.choose(0, 100), Gen.choose(0, 100)) { case ((rows, dies), some, other) =>
      val before = versionOf(rows, dies)
      val from = some % rows.size
      val until = from + 1 + other % (rows.size - from)
      val once = before.merged(from, until)
      assert(once.living == before.living)
      val twice = once.merged(0, once.runs.size)
      assert(twice.living == before.living)
      assert(twice.rows(LeftKeySorted).toSet == before.living && twice.rows(GoneLeft).isEmpty)
      // Whatever was marked in the runs that were merged is gone, with its mark if that is there, too.
      val within =
        before.runs.slice(from, until).flatten.filter(_.section.kind == LeftKeySorted).flatMap(TestRow.all)
      val gone = before.rows(GoneLeft).map(_.seq).toSet
      val left = within.map(_.seq).filter(gone).toSet
      assert(once.rows(LeftKeySorted).map(_.seq).toSet.intersect(left).isEmpty)
      val kept = before.runs.take(from) ++ before.runs.drop(until)
      val marksKept = kept.flatten.filter(_.section.kind == GoneLeft).flatMap(TestRow.all).map(_.seq).toSet
      assert(once.rows(GoneLeft).map(_.seq).toSet.intersect(left).subsetOf(marksKept))
      closeRuns()
      closeBuffers()
    }
  }

  private def at(times: Long*): Seq[TestRow] = times.map(t => TestRow.of(s"key $t", t, t))
  private def timesOf(version: Version, kind: StoreKind): Seq[Long] = version.rows(kind).map(_.time).sorted

  test("a merge leaves out rows that are found by key and have left by their times, to the microsecond") {
    val runs = (0 to 1).map { i =>
      val rows = at(4L + 10 * i, 5L + 10 * i, 6L + 10 * i)
      newRun(100, LeftKeySorted -> bufferOf(rows), RightTimeSorted -> bufferOf(rows))
    }
    val merged = new Version(runs, left = 5, right = 15).merged(0, 2)
    assert(timesOf(merged, LeftKeySorted) == Seq(6, 14, 15, 16))
    assert(timesOf(merged, RightTimeSorted) == Seq(16))
    // Others leave with their sections alone: who looks for them knows what is needed.
    val others = (0 to 1).map(i => newRun(100, RightKeySorted -> bufferOf(at(4L + i, 6L + i))))
    assert(timesOf(new Version(others, left = 5, right = 5).merged(0, 2), RightKeySorted) == Seq(4, 5, 6, 7))
  }

  test("a mark of a right row stays though left rows of its time have come out: the row may be needed") {
    val rows = at(4, 6)
    val first = newRun(100, RightKeySorted -> bufferOf(rows))
    val later = (0 to 1).map(i => newRun(100, GoneRight -> bufferOf(Seq(mark(rows(i))))))
    val merged = new Version(first +: later, left = 5).merged(1, 3)
    assert(timesOf(merged, GoneRight) == Seq(4, 6))
    assert(merged.merged(0, 2).runs.isEmpty)
    // A left row is needed no more, and so is its mark.
    val lefts = (0 to 1).map(i => newRun(100, GoneLeft -> bufferOf(Seq(mark(rows(i))))))
    val ofLeft = new Version(newRun(100, LeftKeySorted -> bufferOf(rows)) +: lefts, left = 5)
    assert(timesOf(ofLeft.merged(1, 3), GoneLeft) == Seq(6))
  }

  test("a merge isn't used for a version in which rows still count that it has left out by their times") {
    val rows = (0 to 1).map(i =>
      newRun(100, LeftKeySorted -> bufferOf(at(4L + i)), RightTimeSorted -> bufferOf(at(4L + i)))
    )
    val version = new Version(rows, left = 4, right = 5)
    val gone = GoneMerge.of(version.state, rows.flatten)
    def fits(left: Long, right: Long) = gone.fits(Expiry(left, right))
    assert(fits(4, 5) && fits(9, 9) && !fits(3, 5) && !fits(4, 4))
  }

  test("a merge isn't used for a version without the marks of the rows that it has left out") {
    val rows = (0 until 4).map(i => TestRow.of(s"key $i", 5, i.toLong))
    val of = rows.grouped(2).map(some => newRun(10, LeftKeySorted -> bufferOf(some))).toSeq
    val marks = newRun(10, GoneLeft -> bufferOf(rows.take(1).map(mark)))
    val (without, withMarks) = (new Version(of), new Version(of :+ marks))
    val inputs = of.flatten
    val gone = GoneMerge.of(withMarks.state, inputs)
    val newest = NewestRows(Long.MinValue, Long.MinValue)
    val local = of.head.head.local
    val merged =
      new Compacted(inputs, newest, gone, Run("r", 1, 0, Nil), local, RowShapes.AsWritten)
    assert(merged.fits(withMarks.state) && !merged.fits(without.state))
  }

  private def run(
      dead: Long,
      rows: Long,
      kind: StoreKind = LeftKeySorted,
      bytes: Long = 1,
      schema: Int = 0
  ): Run = {
    val sections = Seq(
      Section(kind.name, 0, rows, 0, 9, bytes, dead, schema),
      Section(GoneLeft.name, 0, 1, 0, 9, 1, 0, schema)
    )
    Run(s"$dead of $rows", 1, 0, sections)
  }
  private def due(runs: Run*): Seq[String] = GoneMerge.due(Manifest(1, 0, runs), 3).map(_.name)

  test("all runs are due when as many of their rows are gone as count") {
    assert(due().isEmpty)
    assert(due(run(4, 10), run(4, 10), run(5, 10)).isEmpty)
    assert(due(run(4, 10), run(4, 10), run(7, 10)) == Seq("4 of 10", "4 of 10", "7 of 10"))
    assert(due(run(4, 4), run(4, 4)).isEmpty, "a few small runs")
    assert(due(run(4, 4, bytes = 4L << 20)) == Seq("4 of 4"))
    assert(due(run(4, 8, bytes = 4L << 20)).isEmpty, "of the bytes, half are gone")
    assert(due(run(4, 8, bytes = 8L << 20)) == Seq("4 of 8"))
    // However many runs may wait for a merge.
    assert(GoneMerge.due(Manifest(1, 0, Seq.fill(7)(run(4, 4))), 100).isEmpty)
    assert(GoneMerge.due(Manifest(1, 0, Seq.fill(8)(run(4, 4))), 100).size == 8)
    assert(due(run(0, 0), run(0, 0), run(0, 0)).isEmpty)
  }

  test("runs of other columns stay, and so do stores without marks, or that rewrite their runs themselves") {
    assert(due(run(9, 9, schema = 1), run(5, 5), run(6, 6), run(7, 7)) == Seq("5 of 5", "6 of 6", "7 of 7"))
    val unmarked = (1 to 3).map(i => Run(s"$i", 1, 0, Seq(Section(LeftTimeSorted.name, 0, 5, 0, 9, 1, 5))))
    assert(due(unmarked: _*).isEmpty)
    assert(JoinedRight.marks.contains(HeldRight))
    val joined = Seq(Section(HeldRight.name, 0, 5, 0, 9, 1, 5), Section(JoinedRight.name, 0, 5, 0, 9, 1))
    assert(due((1 to 3).map(i => Run(s"$i", 1, 0, joined)): _*).isEmpty)
  }
}
