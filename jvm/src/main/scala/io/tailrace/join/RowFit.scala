package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

/** True if a row of the state has some columns. Names in a checkpoint may be read wrongly, and a row that is read
  * by other columns than it has would be read beyond its end.
  *
  * It finds what Spark's own check finds (`UnsafeRowUtils.validateStructuralIntegrityWithReason`), which costs
  * several times what the reading of the row does, and refuses each null interval.
  */
final class RowFit(columns: StructType) {
  private val count = columns.size
  private val words = UnsafeRow.calculateBitSetWidthInBytes(count) / 8
  private val fixed = 8L * (words + count)
  private val types = columns.map(_.dataType).toArray
  private val isVariable = types.map(!UnsafeRow.isFixedLength(_))
  private val unused = types.map(RowFit.unusedBits)

  // A null of these types keeps its place in the row.
  private val keepsPlace = types.map(UnsafeRowUtils.avoidSetNullAt)
  private val unusedNulls = if (count % 64 == 0) 0L else -1L << count

  /** The reason why a row doesn't have these columns. */
  def misfit(row: UnsafeRow): Option[String] =
    if (row.getSizeInBytes < fixed) Some(s"it has fewer than $count columns")
    else if (count > 0 && (word(row, words - 1) & unusedNulls) != 0)
      Some(s"it has more than $count columns")
    else {
      var end = fixed
      var i = 0
      while (i < count && fits(row, i)) {
        end += variableBytes(row, i)
        i += 1
      }
      if (i < count) Some(s"column ${columns(i).name} has no value of type ${types(i).sql}")
      else Option.when(end != row.getSizeInBytes)(s"its columns have $end bytes of ${row.getSizeInBytes}")
    }

  private def fits(row: UnsafeRow, column: Int): Boolean = {
    val value = word(row, words + column)
    if (isNull(row, column)) value == 0 || (keepsPlace(column) && isInside(row, value))
    else if (isVariable(column)) isInside(row, value)
    else (value & unused(column)) == 0
  }

  /** Behind the columns of fixed length, where each value has whole words. */
  private def variableBytes(row: UnsafeRow, column: Int): Long = {
    val value = word(row, words + column)
    if (!isVariable(column) || value == 0) 0L
    else if (keepsPlace(column)) 16L
    else ((value & 0xffffffffL) + 7) & -8L
  }

  private def isNull(row: UnsafeRow, column: Int): Boolean =
    (word(row, column >> 6) >>> column & 1) != 0

  private def word(row: UnsafeRow, number: Int): Long =
    Platform.getLong(row.getBaseObject, row.getBaseOffset + 8L * number)

  /** @param place of a value: where it begins, and how long it is */
  private def isInside(row: UnsafeRow, place: Long): Boolean = {
    val (offset, size) = (place >>> 32, place & 0xffffffffL)
    offset >= fixed && offset + size <= row.getSizeInBytes
  }
}

private object RowFit {

  /** Those of the eight bytes of a value in a row that are always zero. */
  private def unusedBits(of: DataType): Long = of match {
    case BooleanType => -1L << 1
    case ByteType => -1L << 8
    case ShortType => -1L << 16
    case IntegerType | FloatType | DateType | _: YearMonthIntervalType => -1L << 32
    case _ => 0L
  }
}
