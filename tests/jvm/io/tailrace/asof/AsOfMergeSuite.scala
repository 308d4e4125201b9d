package io.tailrace.asof

import scala.util.Random

import org.apache.spark.unsafe.Platform
import org.scalacheck.{Gen, Shrink}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.state.{RowSort, StoreKind}
import io.tailrace.testkit.{RunFixture, TestRow}

final class AsOfMergeSuite extends AnyFunSuite with RunFixture with ScalaCheckPropertyChecks {
  private implicit def unshrunk[T]: Shrink[T] = Shrink.withLazyList(_ => LazyList.empty)

  private type Entry = (String, Long)

  /** Rows whose values begin with a number each, so that the bytes are in the order of the numbers. */
  private def rowsOf(entries: Seq[(Entry, Int)], fill: Int): Seq[TestRow] =
    entries.zipWithIndex.map { case (((key, time), number), seq) =>
      val value =
        Vector(24, 16, 8, 0).map(shift => (number >> shift).toByte) ++ Vector.fill(fill)(0.toByte)
      TestRow(if (key.isEmpty) Vector.empty else TestRow.key(key), time, seq.toLong, value)
    }

  private def found(newest: NewestRow): Int = {
    val bytes = new Array[Byte](4)
    val to = Platform.BYTE_ARRAY_OFFSET.toLong
    Platform.copyMemory(newest.base, newest.valueOffset, bytes, to, 4L)
    BigInt(bytes).toInt
  }

  private def merged(
      window: AsOfWindow,
      probes: Seq[Entry],
      runs: Seq[Seq[(Entry, Int)]],
      chunk: Int,
      fill: Int
  ): Map[Int, Int] = {
    val sections = runs
      .filter(_.nonEmpty)
      .flatMap(run => newRun(Long.MaxValue, StoreKind.RightNewest -> bufferOf(rowsOf(run, fill))))
    val merge = new AsOfMerge(window)
    try
      probes.zipWithIndex
        .grouped(chunk)
        .flatMap { part =>
          val buffer = bufferOf(rowsOf(part, 0))
          merge.start(buffer, RowSort.byKey(buffer), sections)
          val of = Iterator.continually(merge.next()).takeWhile(identity).map { _ =>
            part(merge.probe)._2 -> (if (merge.hasFound) Some(found(merge.newest)) else None)
          }
          val all = of.toVector
          assert(all.map(_._1).sorted == part.map(_._2))
          all.collect { case (probe, Some(row)) => probe -> row }
        }
        .toMap
    finally {
      merge.close()
      closeRuns()
      closeBuffers()
    }
  }

  private def bruteForce(window: AsOfWindow, probes: Seq[Entry], rights: Seq[(Entry, Int)]): Map[Int, Int] =
    probes.zipWithIndex.flatMap { case ((key, time), probe) =>
      val point = time - window.delay
      def isIn(at: Long) = at <= point && window.maxAge.forall(at >= point - _)
      rights
        .collect { case ((k, at), number) if k == key && key.nonEmpty && isIn(at) => at -> number }
        .maxOption
        .map { case (_, number) => probe -> number }
    }.toMap

  private def check(
      window: AsOfWindow,
      probes: Seq[Entry],
      runs: Seq[Seq[Entry]],
      chunk: Int = Int.MaxValue,
      fill: Int
  ): Unit = {
    // Not as they come: of rows of one time any may be the last by content.
    val numbers = new Random(runs.flatten.size.toLong).shuffle(runs.flatten.indices.toVector).iterator
    val numbered = runs.map(_.map(_ -> numbers.next()))
    assert(merged(window, probes, numbered, chunk, fill) == bruteForce(window, probes, numbered.flatten))
  }

  private val keys = Gen.oneOf("a", "b", "a longer key than a prefix", "a longer key than a prefix!", "z")
  private def entries(keys: Gen[String], most: Int): Gen[Seq[Entry]] =
    Gen.choose(0, most).flatMap(Gen.listOfN(_, Gen.zip(keys, Gen.choose(-30L, 30L))))

  test("each left row gets the newest right row that brute force finds, in small and in large pages") {
    val windows = for {
      delay <- Gen.oneOf(0L, 1L, 7L)
      age <- Gen.oneOf(None, None, Some(0L), Some(5L))
    } yield AsOfWindow(delay, age)
    val runs = Gen.choose(0, 5).flatMap(Gen.listOfN(_, entries(keys, 60)))
    val probes = entries(Gen.frequency(6 -> keys, 1 -> Gen.const("")), 30)
    // With 5,000 bytes a page has three rows, and sections have filters.
    forAll(windows, probes, runs, Gen.oneOf(1, 4, 100), Gen.oneOf(0, 5000), minSuccessful(150))(
      check(_, _, _, _, _)
    )
  }

  test("a left row whose point is before the first time finds nothing, and the next one of its key does") {
    val first = Long.MinValue
    val lefts = Seq("k" -> (first + 4), "k" -> (first + 5), "k" -> (first + 8))
    val rights = Seq(Seq("k" -> first -> 1, "k" -> (first + 3) -> 2))
    assert(merged(AsOfWindow(5L, None), lefts, rights, chunk = 9, fill = 0) == Map(1 -> 1, 2 -> 2))
    assert(merged(AsOfWindow(5L, Some(9L)), lefts, rights, chunk = 1, fill = 0) == Map(1 -> 1, 2 -> 2))
  }

  test("rows of one time on several pages: the last by content") {
    val tied = (1 to 20).map(_ => "k" -> 5L)
    val window = AsOfWindow(0, None)
    check(window, Seq("k" -> 5L, "k" -> 6L, "k" -> 20L), Seq(tied :+ ("k" -> 9L), tied.take(3)), fill = 5000)
    check(window, Seq("k" -> 5L, "l" -> 5L), Seq(("a" -> 5L) +: tied :+ ("l" -> 4L)), fill = 5000)
  }

  test("of a key updated 100,000 times a few pages are read") {
    val rows = rowsOf((0 until 100000).map(i => ("k" -> i.toLong) -> i), fill = 50)
    val section = newSection(StoreKind.RightNewest, rows)
    assert(section.section.keys == 1)
    val cursor = cursorOf(section)
    val probe = rows.head.layout
    cursor.first()
    Seq(500L, 50000L, 99999L).foreach { point =>
      val before = cursor.pagesRead
      cursor.seekPageAt(probe, TestRow.At, point, -1L)
      assert(cursor.time <= point && cursor.pagesRead == before + 1)
    }
    assert(
      merged(
        AsOfWindow(0, None),
        Seq("k" -> 70000L),
        Seq((0 until 70002).map(i => ("k" -> i.toLong) -> i)),
        1,
        0
      ) ==
        Map(0 -> 70000)
    )
  }
}
