package io.tailrace.state

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  InterpretedUnsafeProjection,
  UnsafeProjection
}
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

final class KeyDecoderSuite extends AnyFunSuite {
  private val struct = new StructType().add("a", StringType).add("b", DoubleType)
  private val types: Seq[DataType] = Seq(
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DateType,
    TimestampType,
    TimestampNTZType,
    DecimalType(9, 2),
    DecimalType(38, 10),
    StringType,
    BinaryType,
    struct,
    ArrayType(StringType),
    ArrayType(struct)
  )

  private def value(random: Random, dataType: DataType): Any = dataType match {
    case BooleanType => random.nextBoolean()
    case ByteType => random.nextInt().toByte
    case ShortType => random.nextInt().toShort
    case IntegerType | DateType => random.nextInt()
    case LongType | TimestampType | TimestampNTZType => random.nextLong()
    case FloatType => Seq(random.nextFloat() - 0.5f, Float.NaN, Float.NegativeInfinity)(random.nextInt(3))
    case DoubleType => Seq(random.nextGaussian(), Double.NaN, Double.PositiveInfinity, 0.0)(random.nextInt(4))
    case d: DecimalType => Decimal(BigDecimal(random.nextInt(99999999), d.scale), d.precision, d.scale)
    case StringType => UTF8String.fromString(Seq.fill(random.nextInt(5))(random.nextInt(3).toChar).mkString)
    case BinaryType => Array.fill(random.nextInt(5))(random.nextInt(3).toByte)
    case s: StructType => InternalRow.fromSeq(s.map(f => nullable(random, f.dataType)))
    case ArrayType(element, _) =>
      new GenericArrayData(Array.fill[Any](random.nextInt(4))(nullable(random, element)))
    case other => throw new IllegalArgumentException(other.sql)
  }

  private def nullable(random: Random, dataType: DataType): Any =
    if (random.nextInt(4) == 0) null else value(random, dataType)

  /** Without code that is generated and compiled for each list of types. */
  private def projection(types: Array[DataType]): UnsafeProjection =
    InterpretedUnsafeProjection.createProjection(types.toSeq.zipWithIndex.map { case (dataType, i) =>
      BoundReference(i, dataType, nullable = true)
    })

  test("a value that was encoded comes back, alone and among other columns") {
    (1 to 2000).foreach { seed =>
      val random = new Random(seed)
      val chosen = Array.fill(1 + random.nextInt(3))(types(random.nextInt(types.size)))
      val encoder = new KeyEncoder(chosen.indices.toArray, chosen)
      val unsafe = projection(chosen)
      val row = unsafe(InternalRow.fromSeq(chosen.toSeq.map(value(random, _)))).copy()
      val length = encoder.encode(row)
      val decoded = new KeyDecoder(chosen).decode(java.util.Arrays.copyOf(encoder.bytes, length))
      assert(unsafe(decoded) == row, chosen.map(_.sql).mkString(", "))
    }
  }

  test("minus zero comes back as zero") {
    val encoder = new KeyEncoder(Array(0), Array(DoubleType))
    val length = encoder.encode(InternalRow(-0.0))
    val decoded = new KeyDecoder(Array(DoubleType)).decode(java.util.Arrays.copyOf(encoder.bytes, length))
    assert(1 / decoded.getDouble(0) == Double.PositiveInfinity)
  }
}
