package io.tailrace.inspect

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.types._

import io.tailrace.common.Errors
import io.tailrace.join.{ColumnTexts, JoinCheckpoint}

/** The columns of a join's rows, as its checkpoint names them. The part of a hot key is among them.
  *
  * @param key   the key columns, by the left side's names
  * @param left  all columns of a left row
  * @param right the columns of a right row but its keys
  */
private[inspect] final case class StateColumns(
    key: StructType,
    left: StructType,
    right: StructType,
    time: DataType
) {
  import StateColumns.shown

  /** `operator, partition, side, time, key, left, right`: `left` is null for a right row, and the other way
    * round. `key` is null for a left row with a null in a key column.
    */
  val schema: StructType = new StructType()
    .add("operator", LongType, nullable = false)
    .add("partition", IntegerType, nullable = false)
    .add("side", StringType, nullable = false)
    .add("time", time, nullable = false)
    .add("key", shown(key))
    .add("left", shown(left))
    .add("right", right)

  /** The place of a hot key's part in the key, if there is one. A right row of a hot key is in all parts. */
  val part: Option[Int] = Some(key.indexWhere(_.name == JoinCheckpoint.Part)).filter(_ >= 0)

  def shownKey(row: InternalRow): InternalRow = part.fold(row)(_ => without(row, key))

  def shownLeft(row: InternalRow): InternalRow = part.fold(row)(_ => without(row, left))

  private def without(row: InternalRow, of: StructType): InternalRow =
    new GenericInternalRow(
      of.indices
        .filter(of(_).name != JoinCheckpoint.Part)
        .map { i =>
          row.get(i, of(i).dataType)
        }
        .toArray[Any]
    )
}

private[inspect] object StateColumns {

  def of(join: JoinVersion): StateColumns = {
    def columns(setting: String): StructType = {
      val text = join.settings.getOrElse(setting, "")
      ColumnTexts.read(text).getOrElse {
        throw Errors.stateColumnsUnreadable(join.partitions.head.directory, text, s"`$setting` has no types")
      }
    }
    val left = columns(JoinCheckpoint.LeftColumns)
    val rightKeys = columns(JoinCheckpoint.RightKeys).map(_.name).toSet
    val time = join.settings.get(JoinCheckpoint.LeftTime)
    StateColumns(
      columns(JoinCheckpoint.LeftKeys),
      left,
      StructType(columns(JoinCheckpoint.RightColumns).filterNot(column => rightKeys(column.name))),
      left.find(column => time.contains(column.name)).fold[DataType](TimestampType)(_.dataType)
    )
  }

  private def shown(columns: StructType): StructType =
    StructType(columns.filter(_.name != JoinCheckpoint.Part))

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
