package io.tailrace.state

import java.math.{BigDecimal => JavaDecimal, BigInteger}
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String
import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

final class KeyEncoderSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private def encode(types: Seq[DataType], values: Any*): Seq[Byte] = {
    val encoder = new KeyEncoder(types.indices.toArray, types.toArray)
    val length = encoder.encode(InternalRow.fromSeq(values))
    encoder.bytes.take(length).toSeq
  }

  private def compare(a: Seq[Byte], b: Seq[Byte]): Int =
    Integer.signum(java.util.Arrays.compareUnsigned(a.toArray, b.toArray))

  private def string(text: String): UTF8String = UTF8String.fromString(text)
  private def array(values: Any*): GenericArrayData = new GenericArrayData(values.toArray)

  private def decimal(unscaled: BigInteger, t: DecimalType): Decimal =
    Decimal(new JavaDecimal(unscaled, t.scale), t.precision, t.scale)

  private def unscaled(t: DecimalType): Gen[BigInteger] = for {
    digits <- Gen.choose(1, t.precision)
    text <- Gen.listOfN(digits, Gen.numChar)
    sign <- Gen.oneOf("", "-")
  } yield new BigInteger(sign + text.mkString)

  /** Values as Spark holds them inside rows. */
  private def values(dataType: DataType): Gen[Any] = dataType match {
    case BooleanType => Arbitrary.arbitrary[Boolean]
    case ByteType => Arbitrary.arbitrary[Byte]
    case ShortType => Arbitrary.arbitrary[Short]
    case IntegerType | DateType | _: YearMonthIntervalType => Arbitrary.arbitrary[Int]
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType | _: TimeType =>
      Arbitrary.arbitrary[Long]
    case FloatType => Gen.oneOf(Gen.oneOf(0.0f, -0.0f, Float.NaN), Arbitrary.arbitrary[Float])
    case DoubleType => Gen.oneOf(Gen.oneOf(0.0d, -0.0d, Double.NaN), Arbitrary.arbitrary[Double])
    case d: DecimalType => unscaled(d).map(decimal(_, d))
    case StringType =>
      Gen.listOf(Gen.oneOf("", "\u0000", "a", "ä", "\ud83d\ude00")).map(p => string(p.mkString))
    case BinaryType => Gen.listOf(Gen.oneOf(0, 1, 0xff).map(_.toByte)).map(_.toArray)
    case StructType(fields) =>
      Gen.sequence[Seq[Any], Any](fields.toSeq.map(f => nullable(f.dataType))).map(InternalRow.fromSeq)
    case ArrayType(element, _) =>
      Gen.choose(0, 3).flatMap(Gen.listOfN(_, nullable(element))).map(array(_: _*))
    case other => throw new IllegalArgumentException(other.sql)
  }

  private def nullable(dataType: DataType): Gen[Any] =
    Gen.frequency(1 -> Gen.const(null), 4 -> values(dataType))

  private val point = new StructType().add("x", IntegerType).add("y", StringType)

  private val keyTypes: Seq[DataType] = Seq(
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType(10, 2),
    DecimalType(18, 0),
    DecimalType(19, 4),
    DecimalType(38, 18),
    StringType,
    BinaryType,
    DateType,
    TimestampType,
    TimestampNTZType,
    TimeType(6),
    YearMonthIntervalType(),
    DayTimeIntervalType(),
    point,
    new StructType().add("p", point).add("a", ArrayType(DoubleType)),
    ArrayType(StringType),
    ArrayType(ArrayType(IntegerType)),
    ArrayType(point)
  )

  keyTypes.foreach { dataType =>
    test(s"${dataType.sql}: accepted, and bytes compare as Spark compares") {
      assert(KeyEncoder.refusal(dataType).isEmpty)
      val order =
        new InterpretedOrdering(Seq(SortOrder(BoundReference(0, dataType, nullable = true), Ascending)))
      forAll(values(dataType), values(dataType)) { (a, b) =>
        val (x, y) = (encode(Seq(dataType), a), encode(Seq(dataType), b))
        assert(x.nonEmpty)
        assert(compare(x, y) == Integer.signum(order.compare(InternalRow(a), InternalRow(b))))
        assert(x == y || !y.startsWith(x))
      }
    }
  }

  test("columns are compared in their order") {
    val types = Seq[DataType](StringType, LongType)
    forAll(values(StringType), values(LongType), values(StringType), values(LongType)) { (s, l, t, m) =>
      val order = InterpretedOrdering.forSchema(types)
      assert(
        compare(encode(types, s, l), encode(types, t, m)) ==
          Integer.signum(order.compare(InternalRow(s, l), InternalRow(t, m)))
      )
    }
  }

  test("a null in any key column gives no key") {
    val types = Seq[DataType](IntegerType, StringType)
    assert(encode(types, null, string("a")).isEmpty)
    assert(encode(types, 1, null).isEmpty)
    assert(encode(types, null, null).isEmpty)
    assert(encode(types, 1, string("")).nonEmpty)
  }

  test("after a row with a null the next row's key is whole") {
    val encoder = new KeyEncoder(Array(0, 1), Array(IntegerType, IntegerType))
    encoder.encode(InternalRow(1, 2))
    val first = encoder.bytes.take(8).toSeq
    assert(encoder.encode(InternalRow(5, null)) == 0)
    assert(encoder.encode(InternalRow(1, 2)) == 8)
    assert(encoder.bytes.take(8).toSeq == first)
  }

  test("inside structs and arrays null equals null and nothing else") {
    assert(encode(Seq(point), InternalRow(null, null)) == encode(Seq(point), InternalRow(null, null)))
    assert(encode(Seq(point), InternalRow(null, string(""))) != encode(Seq(point), InternalRow(null, null)))
    assert(encode(Seq(point), InternalRow(0, null)) != encode(Seq(point), InternalRow(null, null)))
    val strings = ArrayType(StringType)
    assert(encode(Seq(strings), array(null)) == encode(Seq(strings), array(null)))
    assert(encode(Seq(strings), array(null)) != encode(Seq(strings), array()))
    assert(encode(Seq(strings), array(null)) != encode(Seq(strings), array(string(""))))
  }

  test("minus zero equals zero, every NaN equals every other") {
    val otherNaN = java.lang.Double.longBitsToDouble(0xfff8000000000001L)
    assert(encode(Seq(DoubleType), -0.0d) == encode(Seq(DoubleType), 0.0d))
    assert(encode(Seq(DoubleType), Double.NaN) == encode(Seq(DoubleType), otherNaN))
    assert(encode(Seq(FloatType), -0.0f) == encode(Seq(FloatType), 0.0f))
    assert(
      encode(Seq(FloatType), Float.NaN) == encode(Seq(FloatType), java.lang.Float.intBitsToFloat(0xffc00001))
    )
  }

  test("zero bytes inside strings don't mix up columns") {
    val types = Seq[DataType](StringType, StringType)
    assert(encode(types, string("a\u0000"), string("b")) != encode(types, string("a"), string("\u0000b")))
    assert(encode(types, string(""), string("\u0000")) != encode(types, string("\u0000"), string("")))
  }

  test("the columns are where the ordinals say") {
    val encoder = new KeyEncoder(Array(2, 0), Array(IntegerType, StringType))
    val length = encoder.encode(InternalRow(string("a"), null, 7))
    assert(encoder.bytes.take(length).toSeq == encode(Seq(IntegerType, StringType), 7, string("a")))
  }

  test("an UnsafeRow gives the same bytes as any other row") {
    val types = Seq[DataType](DecimalType(38, 18), point, ArrayType(DoubleType), StringType)
    val projection = UnsafeProjection.create(types.toArray)
    forAll(Gen.sequence[Seq[Any], Any](types.map(values))) { row =>
      val encoder = new KeyEncoder(types.indices.toArray, types.toArray)
      val length = encoder.encode(projection(InternalRow.fromSeq(row)))
      assert(encoder.bytes.take(length).toSeq == encode(types, row: _*))
    }
  }

  test(
    "a string has the same bytes wherever it stands: an array of its own, the middle of one, or no byte array"
  ) {
    forAll(values(StringType), Gen.choose(0, 9)) { (value, before) =>
      val text = value.toString
      val utf8 = text.getBytes(UTF_8)
      val golden = utf8.toSeq.flatMap(b => if (b == 0) Seq[Byte](0, -1) else Seq(b)) ++ Seq[Byte](0, 0)
      val padded = Array.fill(before)('x'.toByte) ++ utf8 ++ "yz".getBytes(UTF_8)
      val words = new Array[Long](utf8.length / 8 + 1)
      Platform.copyMemory(
        utf8,
        Platform.BYTE_ARRAY_OFFSET.toLong,
        words,
        Platform.LONG_ARRAY_OFFSET.toLong,
        utf8.length.toLong
      )
      val address = Platform.allocateMemory(utf8.length + 1L)
      try {
        Platform.copyMemory(utf8, Platform.BYTE_ARRAY_OFFSET.toLong, null, address, utf8.length.toLong)
        Seq(
          string(text),
          UTF8String.fromBytes(padded, before, utf8.length),
          UTF8String.fromAddress(words, Platform.LONG_ARRAY_OFFSET.toLong, utf8.length),
          UTF8String.fromAddress(null, address, utf8.length)
        ).foreach(s => assert(encode(Seq(StringType), s) == golden))
      } finally Platform.freeMemory(address)
    }
  }

  test("types without an order are refused, at any depth") {
    val map = MapType(StringType, StringType)
    Seq(
      map,
      VariantType,
      CalendarIntervalType,
      NullType,
      new StructType(),
      new StructType().add("a", IntegerType).add("m", map),
      ArrayType(ArrayType(map))
    ).foreach(t => assert(KeyEncoder.refusal(t).contains(KeyEncoder.NotOrderable), t.sql))
  }

  test("strings with a collation are refused, at any depth") {
    val lower = StringType("UTF8_LCASE")
    Seq(lower, ArrayType(lower), new StructType().add("a", IntegerType).add("s", lower))
      .foreach(t => assert(KeyEncoder.refusal(t).contains(KeyEncoder.Collated), t.sql))
    assert(KeyEncoder.refusal(StringType("UTF8_BINARY")).isEmpty)
  }
}
