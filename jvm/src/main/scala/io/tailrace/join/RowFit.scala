package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.types.StructType

/** Whether a row of the state has some columns. */
object RowFit {

  /** What is wrong with a row that should have these columns. Names in a checkpoint may be read wrongly, and a
    * row that is read by other columns than it has would be read beyond its end.
    */
  def misfit(row: UnsafeRow, columns: StructType): Option[String] = {
    val fixed = UnsafeRow.calculateBitSetWidthInBytes(columns.size) + 8L * columns.size
    if (row.getSizeInBytes < fixed) Some(s"it has fewer than ${columns.size} columns")
    else
      columns.indices
        .collectFirst {
          case i
              if !UnsafeRow.isFixedLength(columns(i).dataType) && !row
                .isNullAt(i) && !isInside(row, i, fixed) =>
            s"column ${columns(i).name} isn't inside of it"
        }
        .orElse(
          UnsafeRowUtils.validateStructuralIntegrityWithReason(row, columns)
        )
  }

  private def isInside(row: UnsafeRow, column: Int, fixed: Long): Boolean = {
    val place = row.getLong(column)
    val (offset, size) = (place >>> 32, place & 0xffffffffL)
    offset >= fixed && offset + size <= row.getSizeInBytes
  }
}
