package io.tailrace.examples

import java.util.Locale

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

import io.tailrace.common.OrderedBytes

/** The hash of an impression, which orders impressions of one time. Its columns may be in any order, and a
  * missing column is like a null one, so an added column changes no hash. Impressions that differ anywhere have the
  * same hash only by chance: each column is hashed as bytes from which its value could be read again.
  *
  * It is one expression, however many columns there are: the code that Spark generates for a tree of expressions would
  * be as deep as the number of columns.
  *
  * @param children the columns
  * @param names    of the columns. Those that differ only in case are distinguished by their order
  */
case class ImpressionHash(children: Seq[Expression], names: Seq[String])
    extends Expression
    with CodegenFallback
    with NonSQLExpression {
  override def dataType: DataType = LongType
  override def nullable: Boolean = false

  @transient private lazy val columns = {
    val folded = names.map(_.toLowerCase(Locale.ROOT))
    val prefixes = folded.zipWithIndex.map { case (name, i) =>
      val bytes = new OrderedBytes
      bytes.putBytes(name.getBytes(java.nio.charset.StandardCharsets.UTF_8))
      bytes.putInt32(folded.take(i).count(_ == name))
      bytes.toByteArray
    }
    prefixes.zip(children.map(child => ContentBytes.of(child.dataType))).toArray
  }
  @transient private lazy val value = new GenericInternalRow(1)
  @transient private lazy val out = new OrderedBytes

  override def eval(input: InternalRow): Any = {
    var hash = 0L
    var i = 0
    while (i < columns.length) {
      val of = children(i).eval(input)
      if (of != null) {
        val (prefix, write) = columns(i)
        value.update(0, of)
        out.reset()
        out.putBytes(prefix)
        write(value, 0, out)
        hash ^= XXH64.hashUnsafeBytes(out.bytes, Platform.BYTE_ARRAY_OFFSET.toLong, out.length, 0L)
      }
      i += 1
    }
    hash
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): ImpressionHash =
    copy(newChildren)
}

/** Values as bytes from which they could be read again: different values have different bytes, also if they differ in a
  * null inside, or in the sign of a zero. All NaN are one value, as everywhere in Spark. A value in a wider type
  * has the same bytes.
  */
private[examples] object ContentBytes {
  type Writer = (SpecializedGetters, Int, OrderedBytes) => Unit

  /** Writes a value that isn't null. */
  def of(dataType: DataType): Writer = dataType match {
    case NullType => (_, _, _) => ()
    case BooleanType => (row, i, out) => out.putBoolean(row.getBoolean(i))
    case ByteType => (row, i, out) => out.putInt64(row.getByte(i).toLong)
    case ShortType => (row, i, out) => out.putInt64(row.getShort(i).toLong)
    case IntegerType | DateType | _: YearMonthIntervalType =>
      (row, i, out) => out.putInt64(row.getInt(i).toLong)
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType | _: TimeType =>
      (row, i, out) => out.putInt64(row.getLong(i))
    case FloatType => (row, i, out) => putDouble(row.getFloat(i).toDouble, out)
    case DoubleType => (row, i, out) => putDouble(row.getDouble(i), out)
    case d: DecimalType =>
      (row, i, out) => {
        val value = row.getDecimal(i, d.precision, d.scale).toJavaBigDecimal.stripTrailingZeros
        out.putInt32(value.scale)
        out.putBytes(value.unscaledValue.toByteArray)
      }
    // In any collation: values that are equal in it may have different bytes.
    case _: StringType => (row, i, out) => out.putBytes(row.getUTF8String(i).getBytes)
    case BinaryType => (row, i, out) => out.putBytes(row.getBinary(i))
    case CalendarIntervalType =>
      (row, i, out) => {
        val interval = row.getInterval(i)
        out.putInt32(interval.months)
        out.putInt32(interval.days)
        out.putInt64(interval.microseconds)
      }
    case VariantType =>
      (row, i, out) => {
        val variant = row.getVariant(i)
        out.putBytes(variant.getMetadata)
        out.putBytes(variant.getValue)
      }
    case StructType(fields) =>
      val parts = fields.map(field => nullable(field.dataType))
      (row, i, out) => {
        val struct = row.getStruct(i, parts.length)
        parts.indices.foreach(field => parts(field)(struct, field, out))
      }
    case ArrayType(element, _) =>
      val part = nullable(element)
      (row, i, out) => {
        val array = row.getArray(i)
        out.putInt32(array.numElements())
        (0 until array.numElements()).foreach(part(array, _, out))
      }
    case MapType(key, item, _) =>
      val (keys, items) = (nullable(key), nullable(item))
      (row, i, out) => {
        val map = row.getMap(i)
        out.putInt32(map.numElements())
        (0 until map.numElements()).foreach { entry =>
          keys(map.keyArray(), entry, out)
          items(map.valueArray(), entry, out)
        }
      }
    case udt: UserDefinedType[_] => of(udt.sqlType)
    // A type of a later Spark version: as in a row.
    case other =>
      val one = new GenericInternalRow(1)
      val row = UnsafeProjection.create(Array(other))
      (from, i, out) => {
        one.update(0, from.get(i, other))
        out.putBytes(row(one).getBytes)
      }
  }

  private def nullable(dataType: DataType): Writer = {
    val write = of(dataType)
    (row, i, out) =>
      if (row.isNullAt(i)) out.putByte(0)
      else {
        out.putByte(1)
        write(row, i, out)
      }
  }

  /** Differs from a key, in which minus zero is zero. */
  private def putDouble(value: Double, out: OrderedBytes): Unit =
    out.putInt64(java.lang.Double.doubleToLongBits(value))
}
