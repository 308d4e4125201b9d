package io.tailrace.state

import java.math.{BigDecimal, BigInteger}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.OrderedBytesReader

/** Turns a key back into the columns that [[KeyEncoder]] made it of. Minus zero comes back as zero, and every NaN as the
  * canonical one.
  */
final class KeyDecoder(types: Array[DataType]) {
  private val readers = types.map(KeyDecoder.reader)
  private val in = new OrderedBytesReader

  /** @param key all of it. @return a row of its own */
  def decode(key: Array[Byte]): InternalRow = {
    in.begin(key)
    new GenericInternalRow(readers.map(_(in)))
  }
}

object KeyDecoder {
  private type Reader = OrderedBytesReader => Any

  private def nullable(read: Reader): Reader = in => if (in.getByte() == 0) null else read(in)

  private def reader(dataType: DataType): Reader = dataType match {
    case BooleanType => _.getByte() != 0
    case ByteType => _.getInt8()
    case ShortType => _.getInt16()
    case IntegerType | DateType | _: YearMonthIntervalType => _.getInt32()
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType | _: TimeType => _.getInt64()
    case FloatType => _.getFloat()
    case DoubleType => _.getDouble()
    case d: DecimalType if d.precision <= Decimal.MAX_LONG_DIGITS =>
      in => Decimal(in.getInt64(), d.precision, d.scale)
    case d: DecimalType =>
      in => Decimal(new BigDecimal(new BigInteger(in.getInt128()), d.scale), d.precision, d.scale)
    case _: StringType => in => UTF8String.fromBytes(in.getBytes())
    case BinaryType => _.getBytes()
    case StructType(fields) =>
      val parts = fields.map(f => nullable(reader(f.dataType)))
      in => new GenericInternalRow(parts.map(_(in)))
    case ArrayType(element, _) =>
      val part = nullable(reader(element))
      in =>
        new GenericArrayData(
          Iterator.continually(in.getByte()).takeWhile(_ != 0).map(_ => part(in)).toArray[Any]
        )
    case other => throw new IllegalArgumentException(s"no order-preserving encoding for ${other.sql}")
  }
}
