package io.tailrace.examples

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, GenericInternalRow}
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String, VariantVal}
import org.scalatest.funsuite.AnyFunSuite

/** Impressions that differ anywhere have different hashes, and others have the same. */
final class ImpressionHashSuite extends AnyFunSuite {
  private def hash(columns: (String, DataType, Any)*): Long = {
    val children = columns.zipWithIndex.map { case ((_, dataType, _), i) =>
      BoundReference(i, dataType, nullable = true)
    }
    val row = new GenericInternalRow(columns.map(_._3).toArray[Any])
    ImpressionHash(children, columns.map(_._1)).eval(row).asInstanceOf[Long]
  }

  private def text(value: String): UTF8String = UTF8String.fromString(value)
  private def array(values: Any*): GenericArrayData = new GenericArrayData(values.toArray[Any])
  private def map(entries: (String, String)*): ArrayBasedMapData =
    new ArrayBasedMapData(array(entries.map(e => text(e._1)): _*), array(entries.map(e => text(e._2)): _*))
  private def variant(value: Byte*): VariantVal = new VariantVal(value.toArray, Array[Byte](1, 0, 0))

  private val pair = new StructType().add("p", StringType).add("q", StringType)
  private val texts = MapType(StringType, StringType)

  /** Of each type, values that aren't equal. */
  private val different: Seq[(DataType, Seq[Any])] = Seq(
    BooleanType -> Seq(true, false),
    IntegerType -> Seq(0, 1, -1),
    LongType -> Seq(0L, 1L, Long.MinValue),
    DoubleType -> Seq(0.0, -0.0, Double.NaN, Double.PositiveInfinity, Double.MinPositiveValue),
    FloatType -> Seq(0.0f, -0.0f, Float.NaN, 1.0f),
    DecimalType(10, 2) -> Seq("0.00", "0.10", "1.00", "10.00").map(d => Decimal(BigDecimal(d), 10, 2)),
    DecimalType(38, 10) -> Seq("0", "1e20", "1e-9").map(d => Decimal(BigDecimal(d), 38, 10)),
    StringType -> Seq("", "a", "A", "a\u0000", "ab").map(text),
    StringType("UTF8_LCASE") -> Seq("a", "A").map(text),
    BinaryType -> Seq(Array.emptyByteArray, Array[Byte](0), Array[Byte](0, 0)),
    CalendarIntervalType -> Seq(new CalendarInterval(1, 0, 0), new CalendarInterval(0, 30, 0)),
    VariantType -> Seq(variant(0), variant(12, 1), variant(12, 2)),
    ArrayType(IntegerType) -> Seq(
      array(),
      array(1, null),
      array(null, 1),
      array(null),
      array(1),
      array(1, 0)
    ),
    ArrayType(ArrayType(IntegerType)) -> Seq(
      array(),
      array(array()),
      array(null),
      array(array(), array()),
      array(array(1), array()),
      array(array(), array(1))
    ),
    pair -> Seq(
      InternalRow(text("a"), null),
      InternalRow(null, text("a")),
      InternalRow(null, null),
      InternalRow(text("a"), text(""))
    ),
    texts -> Seq(
      map("a" -> "b, c -> d"),
      map("a" -> "b", "c" -> "d"),
      map(),
      map("c" -> "d", "a" -> "b"),
      map("a" -> null)
    )
  )

  different.foreach { case (dataType, values) =>
    test(s"different values of ${dataType.sql} have different hashes") {
      val hashes = (null +: values).map(value => hash(("c", dataType, value), ("d", IntegerType, 1)))
      assert(hashes.distinct.size == values.size + 1)
      assert(values.map(value => hash(("c", dataType, value), ("d", IntegerType, 1))) == hashes.tail)
    }
  }

  test("the order of columns, and a column that is null, make no difference") {
    val (a, b) = (("a", IntegerType, 1), ("b", StringType, text("x")))
    assert(hash(a, b) == hash(b, a))
    assert(hash(a, b) == hash(a, b, ("more", LongType, null)))
    assert(hash(a, b) == hash(a.copy(_1 = "A"), b))
    // Names whose hash codes in Java are equal.
    assert(
      hash(("Aa", IntegerType, 1), ("BB", IntegerType, 2)) != hash(
        ("Aa", IntegerType, 2),
        ("BB", IntegerType, 1)
      )
    )
    // Two columns of one name.
    assert(hash(a, a) != hash())
    assert(hash(a, a.copy(_3 = 2)) != hash(a.copy(_3 = 2), a))
  }

  test("a value in a wider type has the same hash") {
    assert(hash(("a", IntegerType, 7)) == hash(("a", LongType, 7L)))
    assert(hash(("a", ByteType, 7.toByte)) == hash(("a", ShortType, 7.toShort)))
    assert(hash(("a", FloatType, 0.1f)) == hash(("a", DoubleType, 0.1f.toDouble)))
    val (one, other) = (Decimal(BigDecimal("1.50"), 10, 2), Decimal(BigDecimal("1.5000"), 20, 4))
    assert(hash(("a", DecimalType(10, 2), one)) == hash(("a", DecimalType(20, 4), other)))
  }
}
