package io.tailrace.state

import java.math.{BigDecimal, BigInteger}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, SpecializedGetters}
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.{OrderedBytes, OrderedBytesReader}

/** Turns the key columns of a row into bytes that compare as the columns do.
  *
  * Values in structs and arrays have a marker (0: null, 1: a value), because there null equals null, as in
  * Spark. Key columns have none: a row with a null in one of them matches nothing, and is never encoded.
  *
  * @param ordinals of the key columns in the rows given to [[encode]]
  */
final class KeyEncoder(ordinals: Array[Int], types: Array[DataType]) {
  private val out = new OrderedBytes()
  private val writers = types.map(KeyEncoder.writer)

  def bytes: Array[Byte] = out.bytes

  /** @return the number of bytes now in [[bytes]]; 0 if a key column is null, because no encoding is empty */
  def encode(row: SpecializedGetters): Int = {
    out.reset()
    var i = 0
    while (i < ordinals.length) {
      if (row.isNullAt(ordinals(i))) return 0
      writers(i)(row, ordinals(i), out)
      i += 1
    }
    out.length
  }
}

object KeyEncoder {
  private type Writer = (SpecializedGetters, Int, OrderedBytes) => Unit

  /** The reason why a column of a type can't be a key. */
  sealed trait Refusal
  case object NotOrderable extends Refusal
  case object Collated extends Refusal

  /** @return None if a column of this type can be a key */
  def refusal(dataType: DataType): Option[Refusal] = dataType match {
    case StringType => None
    case _: StringType => Some(Collated)
    case StructType(fields) =>
      if (fields.isEmpty) Some(NotOrderable)
      else fields.iterator.flatMap(f => refusal(f.dataType)).nextOption()
    case ArrayType(element, _) => refusal(element)
    case BooleanType | ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | BinaryType |
        DateType | TimestampType | TimestampNTZType | _: DecimalType | _: YearMonthIntervalType |
        _: DayTimeIntervalType | _: TimeType =>
      None
    case _ => Some(NotOrderable)
  }

  private def nullable(write: Writer): Writer = (row, i, out) =>
    if (row.isNullAt(i)) out.putByte(0)
    else {
      out.putByte(1)
      write(row, i, out)
    }

  private def writer(dataType: DataType): Writer = dataType match {
    case BooleanType => (row, i, out) => out.putBoolean(row.getBoolean(i))
    case ByteType => (row, i, out) => out.putInt8(row.getByte(i))
    case ShortType => (row, i, out) => out.putInt16(row.getShort(i))
    case IntegerType | DateType | _: YearMonthIntervalType => (row, i, out) => out.putInt32(row.getInt(i))
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType | _: TimeType =>
      (row, i, out) => out.putInt64(row.getLong(i))
    case FloatType => (row, i, out) => out.putFloat(row.getFloat(i))
    case DoubleType => (row, i, out) => out.putDouble(row.getDouble(i))
    case d: DecimalType if d.precision <= Decimal.MAX_LONG_DIGITS =>
      (row, i, out) => out.putInt64(row.getDecimal(i, d.precision, d.scale).toUnscaledLong)
    case d: DecimalType =>
      (row, i, out) =>
        out.putInt128(row.getDecimal(i, d.precision, d.scale).toJavaBigDecimal.unscaledValue.toByteArray)
    case _: StringType => (row, i, out) => putString(row.getUTF8String(i), out)
    case BinaryType => (row, i, out) => out.putBytes(row.getBinary(i))
    case StructType(fields) =>
      val parts = fields.map(f => nullable(writer(f.dataType)))
      (row, i, out) => {
        val struct = row.getStruct(i, parts.length)
        var f = 0
        while (f < parts.length) {
          parts(f)(struct, f, out)
          f += 1
        }
      }
    case ArrayType(element, _) =>
      // A 1 precedes each element, and a 0 ends the array: so a shorter array sorts before its extensions.
      val part = nullable(writer(element))
      (row, i, out) => {
        val array = row.getArray(i)
        var e = 0
        while (e < array.numElements()) {
          out.putByte(1)
          part(array, e, out)
          e += 1
        }
        out.putByte(0)
      }
    case other => throw new IllegalArgumentException(s"no order-preserving encoding for ${other.sql}")
  }

  /** Rows from a shuffle or a scan are in byte arrays: there the string is read in place. */
  private def putString(text: UTF8String, out: OrderedBytes): Unit = text.getBaseObject match {
    case bytes: Array[Byte] =>
      out.putBytes(bytes, (text.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt, text.numBytes)
    case _ => out.putBytes(text.getBytes)
  }
}

/** Turns a key back into columns. Minus zero comes back as zero, and each NaN as the canonical one. */
final class KeyDecoder(types: Array[DataType]) {
  private val readers = types.map(KeyDecoder.reader)
  private val in = new OrderedBytesReader

  /** @param key the whole key. @return a new row */
  def decode(key: Array[Byte]): InternalRow = {
    in.begin(key)
    new GenericInternalRow(readers.map(_(in)))
  }

  /** The same where the types may be wrong.
    *
    * @throws RuntimeException if the key has other bytes than keys of these types
    */
  def decodeWhole(key: Array[Byte]): InternalRow = {
    val row = decode(key)
    require(in.isAtEnd, "the key has more columns")
    row
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
      def elements(in: OrderedBytesReader) =
        Iterator.continually(in.getByte()).takeWhile(_ != 0).map(_ => part(in))
      in => new GenericArrayData(elements(in).toArray[Any])
    case other => throw new IllegalArgumentException(s"no order-preserving encoding for ${other.sql}")
  }
}
