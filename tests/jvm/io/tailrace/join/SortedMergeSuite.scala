package io.tailrace.join

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable.ArrayBuffer

import org.scalacheck.{Gen, Shrink}
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.OrderedBytes
import io.tailrace.state.{RowSort, StoreKind}
import io.tailrace.testkit.{Buffers, SparkSuite}

class SortedMergeSuite extends SparkSuite with ScalaCheckPropertyChecks {
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

  /** Pairs of places in `probes` and in the entries of `runs`, as the merge finds them. */
  private def merge(
      probes: Seq[Entry],
      runs: Seq[Seq[Entry]],
      from: Long,
      to: Long,
      width: Long
  ): Seq[(Int, Int)] =
    withDirectory { directory =>
      Buffers.withStore(spark, directory) { store =>
        val number = runs.flatten.indices.iterator
        val sections = runs.flatMap { entries =>
          val rows = Buffers.of(entries.map { case (key, time) =>
            (encoded(key), time, BigInt(number.next()).toByteArray)
          })
          store.addRun(width, StoreKind.RightKeySorted -> rows)
        }
        val buffer = Buffers.of(probes.map { case (key, time) => (encoded(key), time, Array(0: Byte)) })
        val out = new ArrayBuffer[(Int, Int)]
        new SortedMerge(from, to).run(buffer, RowSort.byKey(buffer), sections)(cursor =>
          BigInt(cursor.valueBytes).toInt
        )((probe, entry) => out += probe -> entry)
        buffer.close()
        out.toSeq.sorted
      }
    }

  private def bruteForce(
      probes: Seq[Entry],
      runs: Seq[Seq[Entry]],
      from: BigInt,
      to: BigInt
  ): Seq[(Int, Int)] =
    for {
      (probe, i) <- probes.zipWithIndex if probe._1.nonEmpty
      (entry, j) <- runs.flatten.zipWithIndex
      distance = BigInt(entry._2) - probe._2 if entry._1 == probe._1 && distance >= from && distance <= to
    } yield (i, j)

  private def check(
      probes: Seq[Entry],
      runs: Seq[Seq[Entry]],
      from: Long,
      to: Long,
      width: Long = 10
  ): Unit = {
    assert(merge(probes, runs, from, to, width) == bruteForce(probes, runs, from, to).sorted)
    ()
  }

  test("nothing in, nothing out") {
    check(Nil, Nil, 0, 10)
    check(Nil, Seq(Seq("a" -> 1)), 0, 10)
    check(Seq("a" -> 1), Nil, 0, 10)
  }

  test("one row against one, at both ends and beyond them") {
    (-6 to 6).foreach(distance => check(Seq("a" -> 100), Seq(Seq("a" -> (100L + distance))), -3, 5))
  }

  test("a probe without a key matches nothing") {
    check(Seq("" -> 1, "a" -> 1, "" -> 2), Seq(Seq("a" -> 1)), 0, 10)
  }

  test("keys that share a prefix are told apart, whether they fill it or not") {
    val keys = Seq("a", "a\u0000", "abcdefgh", "abcdefghi", "abcdefgh\u0000", "abcdefgi", "k" * 300)
    check(keys.map(_ -> 5L), Seq(keys.map(_ -> 6L), keys.reverse.map(_ -> 7L)), 0, 2)
  }

  test("a sparse chunk seeks over dense sections") {
    val dense = (0 until 3000).map(i => f"$i%05d" -> i % 40L)
    check(Seq("00000" -> 0L, "01500" -> 15L, "01501" -> 39L, "02999" -> 0L, "x" -> 1L), Seq(dense), -5, 100)
  }

  test("a dense chunk walks over sparse sections") {
    val dense = (0 until 3000).map(i => f"$i%05d" -> i % 40L)
    check(dense, Seq(Seq("00007" -> 3L, "01500" -> 3L), Seq("02999" -> 3L, "x" -> 1L)), -40, 40)
  }

  test("a window as long as time doesn't wrap round") {
    val entries = Seq(Seq("a" -> 1700000000000000L, "a" -> -1700000000000000L))
    check(Seq("a" -> 1700000000000000L), entries, 0, Long.MaxValue)
    check(Seq("a" -> -1700000000000000L), entries, -Long.MaxValue, Long.MaxValue)
  }

  test("the same as brute force") {
    val key = Gen.oneOf("", "a", "b", "c", "a key beyond the prefix", "a key beyond the prefix.")
    val entry = Gen.zip(key, Gen.choose(-40L, 40L))
    val probes = Gen.listOf(entry)
    val runs = Gen.listOf(Gen.listOf(entry.map { case (k, t) => (if (k.isEmpty) "d" else k, t) }))
    val bound = Gen.choose(-20L, 20L)
    forAll(probes, runs, bound, bound, Gen.choose(1L, 50L), minSuccessful(60), sizeRange(40)) {
      (p, r, a, b, width) =>
        check(p, r, Math.min(a, b), Math.max(a, b), width)
    }
  }
}
