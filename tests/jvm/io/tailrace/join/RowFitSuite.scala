package io.tailrace.join

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  InterpretedUnsafeProjection,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}
import org.scalatest.funsuite.AnyFunSuite

class RowFitSuite extends AnyFunSuite {
  private val random = new Random(11)

  /** Types with what makes a value of them. */
  private val makers: Seq[(DataType, () => Any)] = Seq(
    BooleanType -> (() => random.nextBoolean()),
    ByteType -> (() => random.nextInt().toByte),
    ShortType -> (() => random.nextInt().toShort),
    IntegerType -> (() => random.nextInt()),
    DateType -> (() => random.nextInt()),
    YearMonthIntervalType() -> (() => random.nextInt()),
    FloatType -> (() => random.nextFloat() - 0.5f),
    LongType -> (() => random.nextLong()),
    DoubleType -> (() => random.nextGaussian()),
    TimestampType -> (() => random.nextLong()),
    TimestampNTZType -> (() => random.nextLong()),
    DayTimeIntervalType() -> (() => random.nextLong()),
    DecimalType(9, 2) -> (() => Decimal(random.nextInt(1000000).toLong, 9, 2)),
    DecimalType(30, 2) -> (() => Decimal(BigDecimal(random.nextLong(), 2), 30, 2)),
    CalendarIntervalType -> (() => new CalendarInterval(1, 2, random.nextLong())),
    StringType -> (() => UTF8String.fromString("x" * random.nextInt(20))),
    BinaryType -> (() => Array.fill(random.nextInt(20))(random.nextInt().toByte))
  )

  private def schema(
      of: Seq[(DataType, () => Any)] = makers,
      most: Int = 70
  ): Seq[(DataType, () => Any)] = Seq.fill(random.nextInt(most))(of(random.nextInt(of.size)))

  private def columns(of: Seq[(DataType, () => Any)]): StructType =
    StructType(of.zipWithIndex.map { case ((dataType, _), i) => StructField(s"c$i", dataType) })

  // Interpreted, since to compile a projection for each row takes most of the test's time.
  private def row(of: Seq[(DataType, () => Any)]): UnsafeRow = InterpretedUnsafeProjection
    .createProjection(of.zipWithIndex.map { case ((dataType, _), i) => BoundReference(i, dataType, true) })
    .apply(InternalRow.fromSeq(of.map { case (_, value) =>
      if (random.nextInt(4) == 0) null else value()
    }))
    .copy()

  private def withColumns(row: UnsafeRow, count: Int): UnsafeRow = {
    val other = new UnsafeRow(count)
    other.pointTo(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)
    other
  }

  test("a row fits its own columns, of each type and with nulls") {
    for (_ <- 0 until 300) {
      val types = schema()
      assert(new RowFit(columns(types)).misfit(row(types)).isEmpty)
    }
  }

  test("rows of other columns, and changed ones, are refused as Spark's check refuses them") {
    // Spark's refuses each null interval, and takes a decimal's null that has a size for damaged.
    val both = makers.filterNot { case (of, _) => UnsafeRowUtils.avoidSetNullAt(of) }
    var (fit, refused) = (0, 0)
    for (_ <- 0 until 3000) {
      val types = schema(both, 6)
      val own = row(types)
      val other = if (random.nextBoolean()) schema(both, 6) else types.patch(random.nextInt(6), Nil, 1)
      val seen = withColumns(own, other.size)
      if (random.nextBoolean() && own.getSizeInBytes > 0) {
        val at = random.nextInt(own.getSizeInBytes)
        own.getBaseObject.asInstanceOf[Array[Byte]](at) = random.nextInt().toByte
      }
      val misfit = new RowFit(columns(other)).misfit(seen)
      val ofSpark = UnsafeRowUtils.validateStructuralIntegrityWithReason(seen, columns(other))
      // Spark's doesn't ask whether a value begins behind the columns of its row.
      assert(misfit.nonEmpty || ofSpark.isEmpty, ofSpark)
      if (misfit.isEmpty) fit += 1
      if (ofSpark.nonEmpty) refused += 1
    }
    assert(fit > 100 && refused > 1000, s"$fit fit, $refused don't")
  }

  test("the reason names the column") {
    val fit = new RowFit(StructType.fromDDL("a INT, b STRING"))
    val longs = UnsafeProjection.create(Array[DataType](LongType, LongType))
    assert(fit.misfit(longs(InternalRow(1L << 40, 1L))) == Some("column a has no value of type INT"))
    assert(fit.misfit(longs(InternalRow(1L, 1L))) == Some("column b has no value of type STRING"))
    assert(fit.misfit(withColumns(row(makers.take(1)), 2)) == Some("it has fewer than 2 columns"))
    val three = UnsafeProjection.create(Array[DataType](IntegerType, IntegerType, IntegerType))
    assert(fit.misfit(three(InternalRow(1, null, null))) == Some("it has more than 2 columns"))
  }
}
