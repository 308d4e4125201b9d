package io.tailrace.state

import java.util.HexFormat

import org.apache.spark.unsafe.Platform
import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.TestRow

final class RowLayoutSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import TestRow.At

  private def withKey(key: Seq[Int]): Array[Byte] =
    TestRow(key.map(_.toByte).toVector, 1, 1, Vector.empty).layout

  /** As [[RowBuffer]] and [[RunCursor]] compare. */
  private def compareKeys(a: Array[Byte], b: Array[Byte]): Int = {
    val byPrefix = java.lang.Long.compareUnsigned(RowLayout.keyPrefix(a, At), RowLayout.keyPrefix(b, At))
    Integer.signum(if (byPrefix != 0) byPrefix else RowLayout.compareKeysBeyondPrefix(a, At, b, At))
  }

  private def write(row: TestRow, garbage: Byte): Array[Byte] = {
    val bytes = Array.fill(RowLayout.length(row.key.size, row.value.size).toInt)(garbage)
    RowLayout.writeHeader(bytes, At, row.time, row.seq, row.key.size, row.value.size)
    Platform.copyMemory(row.key.toArray, At, bytes, RowLayout.keyAt(At), row.key.size.toLong)
    Platform.copyMemory(row.value.toArray, At, bytes, RowLayout.valueAt(bytes, At), row.value.size.toLong)
    bytes
  }

  test("a row has the bytes of the format") {
    val row = TestRow(Vector(1, 2, 3), -2, 0x0102030405L, Vector(9, 8, 7, 6, 5, 4, 3, 2, 1))
    val expected = "feffffffffffffff" + "0504030201000000" + "03000000" + "09000000" +
      "0102030000000000" + "0908070605040302" + "0100000000000000"
    assert(HexFormat.of().formatHex(write(row, 0)) == expected)
    assert(HexFormat.of().formatHex(row.layout) == expected)
  }

  test("an empty key and an empty value have the bytes of the format") {
    val expected = "0100000000000000" + "0200000000000000" + "00000000" + "00000000"
    assert(
      HexFormat.of().formatHex(write(TestRow(Vector.empty, 1, 2, Vector.empty), 0x55)) == expected
    )
  }

  test("a row is read as it was written, and a key is padded with zeros whatever was there before") {
    forAll(TestRow.rows(Arbitrary.arbitrary[Long], emptyKeys = true)) { rows =>
      rows.foreach { row =>
        val bytes = write(row, 0x55)
        assert(RowLayout.time(bytes, At) == row.time && RowLayout.seq(bytes, At) == row.seq)
        assert(RowLayout.keyLength(bytes, At) == row.key.size)
        assert(RowLayout.valueLength(bytes, At) == row.value.size)
        assert(RowLayout.length(bytes, At) == row.layout.length)
        val valueFrom = (RowLayout.valueAt(bytes, At) - At).toInt
        assert(bytes.take(valueFrom).toSeq == row.layout.take(valueFrom).toSeq)
        assert(bytes.slice(valueFrom, valueFrom + row.value.size).toSeq == row.value)
      }
    }
  }

  test("lengths are multiples of eight, also beyond the range of an int") {
    assert(RowLayout.length(0, 0) == 24)
    assert(RowLayout.length(1, 0) == 32 && RowLayout.length(8, 1) == 40 && RowLayout.length(9, 8) == 48)
    assert(RowLayout.length(Int.MaxValue, Int.MaxValue) == 24 + 2 * (1L << 31))
    assert((0 to 17).map(RowLayout.padded) == (0 to 17).map(n => (n + 7) / 8 * 8))
  }

  test("a prefix is the key's first eight bytes, unsigned, padded with zeros") {
    Seq[(Seq[Int], Long)](
      Nil -> 0L,
      Seq(0) -> 0L,
      Seq(1) -> (1L << 56),
      Seq(0xff, 0, 0) -> (0xffL << 56),
      (1 to 8) -> 0x0102030405060708L,
      (1 to 9) -> 0x0102030405060708L
    ).foreach { case (key, prefix) => assert(RowLayout.keyPrefix(withKey(key), At) == prefix) }
  }

  test("an empty key's prefix is not that of the value behind it") {
    val row = TestRow(Vector.empty, 1, 1, Vector.fill(8)(0x55.toByte))
    assert(RowLayout.keyPrefix(row.layout, At) == 0L)
  }

  test("keys of zeros are ordered by their length, the empty one first") {
    val keys = (0 to 20).map(n => withKey(Seq.fill(n)(0)))
    for (a <- keys.indices; b <- keys.indices)
      assert(compareKeys(keys(a), keys(b)) == Integer.signum(a - b), s"$a and $b zeros")
  }

  test("keys compare as their bytes do, whatever prefix they share") {
    val byte = Gen.oneOf(0, 1, 0x7f, 0x80, 0xff)
    val keys = for {
      shared <- Gen.choose(0, 20).flatMap(Gen.listOfN(_, byte))
      a <- Gen.choose(0, 10).flatMap(Gen.listOfN(_, byte))
      b <- Gen.choose(0, 10).flatMap(Gen.listOfN(_, byte))
    } yield (shared ++ a, shared ++ b)
    forAll(keys, minSuccessful(1000)) { case (a, b) =>
      val expected =
        Integer.signum(java.util.Arrays.compareUnsigned(a.map(_.toByte).toArray, b.map(_.toByte).toArray))
      assert(compareKeys(withKey(a), withKey(b)) == expected)
    }
  }

  test("values compare as their bytes do, not as the padding behind them") {
    val values = Gen.choose(0, 20).flatMap(Gen.listOfN(_, Gen.oneOf(0, 1, 0x80, 0xff).map(_.toByte)))
    forAll(values, values, Arbitrary.arbitrary[Byte], Arbitrary.arbitrary[Byte], minSuccessful(500)) {
      (a, b, garbageA, garbageB) =>
        val x = write(TestRow(Vector(1), 1, 1, a.toVector), garbageA)
        val y = write(TestRow(Vector(2, 3), 2, 2, b.toVector), garbageB)
        assert(
          Integer.signum(RowLayout.compareValues(x, At, y, At)) ==
            Integer.signum(java.util.Arrays.compareUnsigned(a.toArray, b.toArray))
        )
    }
  }
}
