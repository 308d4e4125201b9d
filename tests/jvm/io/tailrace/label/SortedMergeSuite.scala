package io.tailrace.label

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.tailrace.TaskMemory
import org.apache.spark.unsafe.Platform
import org.scalacheck.{Gen, Shrink}
import org.scalactic.anyvals.PosInt
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.OrderedBytes
import io.tailrace.state.{LateRows, RowBuffer, RowLayout, RowMemory, RowSort, StoreKind}
import io.tailrace.testkit.{Campaign, RunFixture, TestRow}

final class SortedMergeSuite extends AnyFunSuite with RunFixture with ScalaCheckPropertyChecks {
  private type Entry = (String, Long)

  // A smaller case may no longer be one: a run has no entry without a key.
  private implicit def unshrunk[T]: Shrink[T] = Shrink.withLazyList(_ => LazyList.empty)

  /** As the engine's keys are: none is the beginning of another. */
  private def encoded(key: String): Array[Byte] =
    if (key.isEmpty) Array.emptyByteArray
    else {
      val out = new OrderedBytes
      out.putBytes(key.getBytes(UTF_8))
      out.toByteArray
    }

  /** Pairs of places in `probes` and in the entries of `runs`, as the merge finds them.
    *
    * @param chunk probes at a time
    * @param fill  bytes that make the entries longer
    * @param late  the first run is of version 1
    */
  private def merge(
      probes: Seq[Entry],
      runs: Seq[Seq[Entry]],
      from: Long,
      to: Long,
      width: Long,
      chunk: Int,
      fill: Int,
      most: Long,
      inPieces: Boolean,
      late: Seq[LateRows]
  ): Seq[(Int, Int)] = {
    val all = runs.flatten.toVector
    try {
      val number = runs.flatten.indices.iterator
      val sections = runs.zipWithIndex.filter(_._1.nonEmpty).flatMap { case (entries, run) =>
        val rows = rowsOf(entries, Vector.fill(fill)(0.toByte), number, RowLayout.firstSeq(run + 1L))
        newRun(width, StoreKind.RightKeySorted -> rows)
      }
      val memory = new RowMemory(TaskMemory.create(256L << 20))
      val large = if (inPieces) LargeKeys.InPieces else LargeKeys.ByWindow
      val merged =
        new SortedMerge(from, to, memory, most, large = large, late = new LateRights(late, to))
      val out = new ArrayBuffer[(Int, Int)]
      try {
        // One merge takes a chunk after the other, as a task's does.
        probes.zipWithIndex.grouped(chunk).foreach { part =>
          val buffer = rowsOf(part.map(_._1), Vector.empty, part.map(_._2).iterator)
          merged.start(buffer, RowSort.byKey(buffer), sections)
          var seen = 0
          while (merged.next()) {
            seen += 1
            val first = merged.candidates.first
            val positions = first until first + merged.candidates.count
            val places = positions.map(placeOf(merged.candidates, _))
            out ++= places.map(part(merged.probe)._2 -> _)
            val times = positions.map(merged.candidates.time)
            assert(times == times.sorted)
            if (!inPieces) assert(merged.matched == positions.size)
            assert(times == places.map(all(_)._2))
          }
          assert(if (inPieces) seen >= part.size else seen == part.size)
          assert(!merged.next())
        }
      } finally merged.close()
      assert(out.distinct.size == out.size)
      out.toSeq.sorted
    } finally {
      closeRuns()
      closeBuffers()
    }
  }

  /** Rows whose values begin with a number each. */
  private def rowsOf(
      entries: Seq[Entry],
      fill: Vector[Byte],
      numbers: Iterator[Int],
      firstSeq: Long = 0
  ): RowBuffer =
    bufferOf(entries.map { case (key, time) =>
      val number = numbers.next()
      val value = Vector(24, 16, 8, 0).map(shift => (number >> shift).toByte) ++ fill
      TestRow(encoded(key).toVector, time, firstSeq + number, value)
    })

  private def placeOf(candidates: Candidates, position: Int): Int = {
    val bytes = new Array[Byte](candidates.valueLength(position))
    Platform.copyMemory(
      candidates.base(position),
      candidates.valueOffset(position),
      bytes,
      Platform.BYTE_ARRAY_OFFSET.toLong,
      bytes.length.toLong
    )
    BigInt(bytes.take(4)).toInt
  }

  private def bruteForce(
      probes: Seq[Entry],
      runs: Seq[Seq[Entry]],
      from: BigInt,
      to: BigInt,
      late: Seq[LateRows]
  ): Seq[(Int, Int)] =
    for {
      (probe, i) <- probes.zipWithIndex if probe._1.nonEmpty
      ((entry, run), j) <- runs.zipWithIndex.flatMap { case (some, run) => some.map(_ -> run) }.zipWithIndex
      distance = BigInt(entry._2) - probe._2 if entry._1 == probe._1 && distance >= from && distance <= to
      behind = late.find(batch => batch.version == run + 1 && entry._2 <= batch.watermark)
      if behind.forall(batch => probe._2 + to > batch.watermark)
    } yield (i, j)

  private def check(
      probes: Seq[Entry],
      runs: Seq[Seq[Entry]],
      from: Long,
      to: Long,
      width: Long = 10,
      chunk: Int = Int.MaxValue,
      fill: Int = 0,
      late: Seq[LateRows] = Nil
  ): Unit = {
    val expected = bruteForce(probes, runs, from, to, late).sorted
    // All in memory; by window; in pieces of one row and of some, where no row is late.
    val ways = Seq((1L << 40) -> false, 1L -> false, 1L -> true, 700L -> true)
    ways.filter(late.isEmpty || !_._2).foreach { case (most, inPieces) =>
      val found = merge(probes, runs, from, to, width, chunk, fill, most, inPieces, late)
      assert(found == expected, (most, inPieces))
    }
  }

  test("empty inputs give no rows") {
    check(Nil, Nil, 0, 10)
    check(Nil, Seq(Seq("a" -> 1)), 0, 10)
    check(Seq("a" -> 1), Nil, 0, 10)
  }

  test("one row matches another from one end of the window to the other, and not beyond") {
    (-6 to 6).foreach(distance => check(Seq("a" -> 100), Seq(Seq("a" -> (100L + distance))), -3, 5))
  }

  test("a probe without a key matches nothing") {
    check(Seq("" -> 1, "a" -> 1, "" -> 2), Seq(Seq("a" -> 1)), 0, 10)
  }

  test("keys that share a prefix are told apart, whether they fill it or not") {
    val keys = Seq("a", "a\u0000", "abcdefgh", "abcdefghi", "abcdefgh\u0000", "abcdefgi", "k" * 300)
    check(keys.map(_ -> 5L), Seq(keys.map(_ -> 6L), keys.reverse.map(_ -> 7L)), 0, 2)
  }

  test("a sparse chunk finds its matches in dense sections") {
    val dense = (0 until 3000).map(i => f"$i%05d" -> i % 40L)
    check(Seq("00000" -> 0L, "01500" -> 15L, "01501" -> 39L, "02999" -> 0L, "x" -> 1L), Seq(dense), -5, 100)
  }

  test("a chunk finds its matches in sections of many pages, whether it needs few of them or all") {
    def entries(from: Int, by: Int, n: Int) = (0 until n).map(i => f"${from + i * by}%05d" -> (i % 40).toLong)
    val dense = Seq(entries(0, 2, 500), entries(1, 2, 500), entries(0, 7, 150) ++ entries(0, 7, 150))
    check(Seq(17, 18, 18, 499, 500, 1001, 9000).map(i => f"$i%05d" -> 0L), dense, -5, 100, 1000, fill = 1500)
    check(entries(0, 5, 220), dense, -5, 100, 1000, chunk = 120, fill = 1500)
  }

  test("a dense chunk finds its matches in sparse sections") {
    val dense = (0 until 3000).map(i => f"$i%05d" -> i % 40L)
    check(dense, Seq(Seq("00007" -> 3L, "01500" -> 3L), Seq("02999" -> 3L, "x" -> 1L)), -40, 40)
  }

  test("a window as long as time doesn't wrap round") {
    val entries = Seq(Seq("a" -> 1700000000000000L, "a" -> -1700000000000000L))
    check(Seq("a" -> 1700000000000000L), entries, 0, Long.MaxValue)
    check(Seq("a" -> -1700000000000000L), entries, -Long.MaxValue, Long.MaxValue)
  }

  for ((count, tags) <- Campaign.sizes(20, 60)) test(s"the same as brute force: $count times", tags: _*) {
    val key = Gen.oneOf("", "a", "b", "c", "a key beyond the prefix", "a key beyond the prefix.")
    val entry = Gen.zip(key, Gen.choose(-40L, 40L))
    val probes = Gen.listOf(entry)
    val runs = Gen.listOf(Gen.listOf(entry.map { case (k, t) => (if (k.isEmpty) "d" else k, t) }))
    val bound = Gen.choose(-20L, 20L)
    forAll(
      probes,
      runs,
      bound,
      bound,
      Gen.choose(1L, 50L),
      minSuccessful(PosInt.ensuringValid(count)),
      sizeRange(40)
    ) { (p, r, a, b, width) =>
      check(p, r, Math.min(a, b), Math.max(a, b), width)
    }
  }

  for ((count, tags) <- Campaign.sizes(8, 30))
    test(
      s"the same as brute force with many sections, equal entries and a hot key: $count times",
      tags: _*
    ) {
      val key = Gen.frequency(6 -> "hot", 1 -> "a", 1 -> "b", 1 -> "hot key beyond the prefix", 1 -> "zz")
      val entry = Gen.zip(key, Gen.choose(-200L, 200L))
      val run = Gen.listOf(entry).map(some => some ++ some.take(3))
      val runs = Gen.choose(1, 25).flatMap(Gen.listOfN(_, run))
      val bound = Gen.choose(-60L, 60L)
      forAll(
        Gen.listOf(entry),
        runs,
        bound,
        bound,
        Gen.oneOf(1, 7, 1000),
        minSuccessful(PosInt.ensuringValid(count)),
        sizeRange(60)
      ) { (p, r, a, b, chunk) =>
        check(p, r, Math.min(a, b), Math.max(a, b), width = 20, chunk, fill = 300)
      }
    }

  for ((count, tags) <- Campaign.sizes(10, 100))
    test(s"a probe doesn't get rows that came when its window had closed: $count times", tags: _*) {
      val entry = Gen.zip(Gen.oneOf("a", "a", "b"), Gen.choose(0L, 40L))
      val runs = Gen.choose(1, 6).flatMap(Gen.listOfN(_, Gen.listOf(entry)))
      val moves = Gen.listOfN(6, Gen.choose(0L, 12L))
      val bound = Gen.choose(0L, 20L)
      // Those of some runs have no late row, or none that anybody waits for.
      forAll(
        Gen.listOf(entry),
        runs,
        bound,
        bound,
        moves,
        Gen.listOfN(6, Gen.oneOf(true, true, false)),
        minSuccessful(PosInt.ensuringValid(count)),
        sizeRange(30)
      ) { (p, r, before, after, steps, taken) =>
        val watermarks = steps.scanLeft(0L)(_ + _).tail
        val late = watermarks.zipWithIndex.map { case (w, run) => LateRows(run + 1L, w) }
        val onTime = r.zip(late).zip(taken).map { case ((rows, batch), takes) =>
          if (takes) rows else rows.filter(_._2 > batch.watermark)
        }
        val known = late.zip(taken).collect { case (batch, true) => batch }.take(r.size)
        check(p, onTime, -before, after, late = known)
      }
    }

  test("a key may have more rows than a page or a chunk") {
    val hot = Seq.tabulate(2000)(i => "hot" -> (i * 7L % 1000))
    val probes = Seq.tabulate(50)(i => "hot" -> i * 20L) ++ Seq("cold" -> 1L, "hotter" -> 1L)
    check(probes, hot.grouped(400).toSeq :+ Seq("cold" -> 2L, "hotter" -> 3L), -5, 5, 100, 9, fill = 200)
  }

  test("a merge can be closed before its end, and twice") {
    val rows = bufferOf(Seq.tabulate(100) { i =>
      TestRow(encoded("a").toVector, i.toLong, i.toLong, Vector.fill(500)(1.toByte))
    })
    val sections = newRun(10, StoreKind.RightKeySorted -> rows)
    val manager = TaskMemory.create(64L << 20)
    val merged = new SortedMerge(-10, 10, new RowMemory(manager))
    merged.start(rows, RowSort.byKey(rows), sections)
    assert(merged.next() && merged.candidates.count == 11)
    merged.close()
    merged.close()
    assert(manager.getMemoryConsumptionForThisTask == 0)
  }
}
