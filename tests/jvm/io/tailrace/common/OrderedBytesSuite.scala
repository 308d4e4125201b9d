package io.tailrace.common

import java.math.BigInteger
import java.util.HexFormat

import scala.io.Source

import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

final class OrderedBytesSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val hex = HexFormat.of()

  /** The smallest buffer, so that each value has to make it grow. */
  private def encode(put: OrderedBytes => Unit): Array[Byte] = {
    val out = new OrderedBytes(1)
    put(out)
    out.toByteArray
  }

  private def compare(a: Array[Byte], b: Array[Byte]): Int =
    Integer.signum(java.util.Arrays.compareUnsigned(a, b))

  private val writers: Map[String, (OrderedBytes, String) => Unit] = Map(
    "boolean" -> ((out, v) => out.putBoolean(v.toBoolean)),
    "int8" -> ((out, v) => out.putInt8(v.toByte)),
    "int16" -> ((out, v) => out.putInt16(v.toShort)),
    "int32" -> ((out, v) => out.putInt32(v.toInt)),
    "int64" -> ((out, v) => out.putInt64(v.toLong)),
    "int128" -> ((out, v) => out.putInt128(new BigInteger(v).toByteArray)),
    "float" -> ((out, v) => out.putFloat(v.toFloat)),
    "double" -> ((out, v) => out.putDouble(v.toDouble)),
    "bytes" -> ((out, v) => out.putBytes(hex.parseHex(if (v == "-") "" else v)))
  )

  private lazy val vectors: Seq[(String, String, String)] = {
    val source = Source.fromFile("tests/golden/ordered-bytes.txt")
    try
      source
        .getLines()
        .filterNot(line => line.isEmpty || line.startsWith("#"))
        .map(_.split(' '))
        .map(parts => (parts(0), parts(1), parts(2)))
        .toVector
    finally source.close()
  }

  test("each type has the golden bytes") {
    assert(vectors.map(_._1).toSet == writers.keySet)
    vectors.foreach { case (kind, value, bytes) =>
      assert(hex.formatHex(encode(writers(kind)(_, value))) == bytes, s"$kind $value")
    }
  }

  private def ordered[T](name: String, values: Gen[T], order: Ordering[T])(
      put: (OrderedBytes, T) => Unit
  ): Unit = {
    test(s"$name: bytes compare as values do") {
      forAll(values, values) { (a, b) =>
        assert(compare(encode(put(_, a)), encode(put(_, b))) == Integer.signum(order.compare(a, b)))
      }
    }
    test(s"$name: no encoding is the beginning of another") {
      forAll(values, values) { (a, b) =>
        val (x, y) = (encode(put(_, a)), encode(put(_, b)))
        assert(x.sameElements(y) || !y.startsWith(x))
      }
    }
    test(s"$name: a composite key compares column by column") {
      forAll(values, Arbitrary.arbitrary[Int], values, Arbitrary.arbitrary[Int]) { (a, i, b, j) =>
        def both(value: T, rest: Int) = encode { out =>
          put(out, value)
          out.putInt32(rest)
        }
        val expected = if (order.equiv(a, b)) Integer.compare(i, j) else Integer.signum(order.compare(a, b))
        assert(compare(both(a, i), both(b, j)) == expected)
      }
    }
  }

  private def floats[T](bits: Gen[T], special: T*): Gen[T] = Gen.frequency(3 -> bits, 1 -> Gen.oneOf(special))

  ordered("boolean", Arbitrary.arbitrary[Boolean], Ordering.Boolean)(_.putBoolean(_))
  ordered("int8", Arbitrary.arbitrary[Byte], Ordering.Byte)(_.putInt8(_))
  ordered("int16", Arbitrary.arbitrary[Short], Ordering.Short)(_.putInt16(_))
  ordered("int32", Arbitrary.arbitrary[Int], Ordering.Int)(_.putInt32(_))
  ordered("int64", Arbitrary.arbitrary[Long], Ordering.Long)(_.putInt64(_))
  ordered(
    "float",
    floats(
      Arbitrary.arbitrary[Int].map(i => java.lang.Float.intBitsToFloat(i)),
      0.0f,
      -0.0f,
      Float.NaN,
      Float.MinPositiveValue,
      Float.PositiveInfinity,
      Float.NegativeInfinity
    ),
    Ordering.by[Float, Float](f => if (f == 0.0f) 0.0f else f)(Ordering.Float.TotalOrdering)
  )(_.putFloat(_))
  ordered(
    "double",
    floats(
      Arbitrary.arbitrary[Long].map(i => java.lang.Double.longBitsToDouble(i)),
      0.0d,
      -0.0d,
      Double.NaN,
      Double.MinPositiveValue,
      Double.PositiveInfinity,
      Double.NegativeInfinity
    ),
    Ordering.by[Double, Double](d => if (d == 0.0d) 0.0d else d)(Ordering.Double.TotalOrdering)
  )(_.putDouble(_))
  ordered(
    "int128",
    Gen
      .choose(1, 16)
      .flatMap(n => Gen.listOfN(n, Arbitrary.arbitrary[Byte]))
      .map(b => new BigInteger(b.toArray)),
    Ordering.comparatorToOrdering(Comparator)
  )((out, value) => out.putInt128(value.toByteArray))
  ordered(
    "bytes",
    Gen.listOf(Gen.oneOf(0, 1, 'a'.toInt, 0xff).map(_.toByte)),
    Ordering.fromLessThan[List[Byte]]((a, b) => java.util.Arrays.compareUnsigned(a.toArray, b.toArray) < 0)
  )((out, value) => out.putBytes(value.toArray))

  private object Comparator extends java.util.Comparator[BigInteger] {
    override def compare(a: BigInteger, b: BigInteger): Int = a.compareTo(b)
  }

  test("a part of an array is encoded as an array of its own") {
    forAll(Gen.listOf(Gen.oneOf(0, 1, 0xff).map(_.toByte)), Gen.choose(0, 5), Gen.choose(0, 5)) {
      (value, before, after) =>
        val padded = Array.fill(before)(7.toByte) ++ value ++ Array.fill(after)(0.toByte)
        assert(
          encode(_.putBytes(padded, before, value.size)).toSeq == encode(_.putBytes(value.toArray)).toSeq
        )
    }
  }

  test("more than 128 bits are refused") {
    assertThrows[IllegalArgumentException](encode(_.putInt128(new Array[Byte](17))))
  }

  test("reset forgets the last value and keeps the buffer") {
    val out = new OrderedBytes(1)
    out.putBytes(Array.fill(100)(7.toByte))
    val buffer = out.bytes
    out.reset()
    assert(out.length == 0)
    out.putByte(3)
    assert(out.toByteArray.toSeq == Seq(3.toByte))
    assert(out.bytes eq buffer)
  }
}
