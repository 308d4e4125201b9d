package io.tailrace.ops.inspect

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.types._

import io.tailrace.common.Errors
import io.tailrace.join.{ColumnTexts, JoinCheckpoint, RowFit}
import io.tailrace.state.{KeyDecoder, LiveSection, RowLayout, RowShapes, RunCursor}

/** The columns of a join's rows, as its checkpoint names them. The part of a salted key is among them.
  *
  * @param key   the key columns, by the left side's names
  * @param left  all columns of a left row
  * @param right the columns of a right row but its keys
  * @param rightKeys the names of the key columns on the right side, in the order of `key`
  * @param shapes of rows that were written with other columns
  * @param parts of a salted key; none: unknown
  * @param isChange whether the rows are those that have come and gone between two versions
  */
private[tailrace] final case class StateColumns(
    key: StructType,
    left: StructType,
    right: StructType,
    rightKeys: Seq[String],
    time: DataType,
    shapes: RowShapes,
    parts: Option[Int] = None,
    isChange: Boolean = false
) {
  import StateColumns.shown

  /** `change` of a change feed, `operator, partition, side, time, key, left, right`: `left` is null for a right row, and the other way
    * round. `key` is null for a left row with a null in a key column.
    */
  val schema: StructType = StructType(change)
    .add("operator", LongType, nullable = false)
    .add("partition", IntegerType, nullable = false)
    .add("side", StringType, nullable = false)
    .add("time", time, nullable = false)
    .add("key", shown(key))
    .add("left", shown(left))
    .add("right", right)

  private def change = Option.when(isChange)(StructField("change", StringType, nullable = false)).toSeq

  /** The place of a salted key's part in the key, if there is one. A right row of a salted key is in all parts. */
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

private[tailrace] object StateColumns {

  private val Parts = """(?s).* in (\d+) parts""".r

  /** @param bound     what the checkpoint is bound to
    * @param directory of the state, for errors
    * @param isChange  whether the rows are those of a change feed
    */
  def of(bound: JoinCheckpoint, directory: String, isChange: Boolean = false): StateColumns = {
    def columns(setting: String): StructType = {
      val text = bound.settings.getOrElse(setting, "")
      ColumnTexts.read(text).getOrElse {
        throw Errors.stateColumnsUnreadable(directory, text, s"`$setting` has no types")
      }
    }
    // Texts of columns may have several readings; earlier checkpoints have nothing else.
    val schema = bound.schemas.lift(bound.schema)
    val left = schema.fold(columns(JoinCheckpoint.LeftColumns))(_.leftColumns)
    val rightKeys = columns(JoinCheckpoint.RightKeys).map(_.name)
    def right =
      StructType(columns(JoinCheckpoint.RightColumns).filterNot(column => rightKeys.contains(column.name)))
    val time = bound.settings.get(JoinCheckpoint.LeftTime)
    StateColumns(
      columns(JoinCheckpoint.LeftKeys),
      left,
      schema.fold(right)(_.rightColumns),
      rightKeys,
      left.find(column => time.contains(column.name)).fold[DataType](TimestampType)(_.dataType),
      bound.shapes,
      bound.settings
        .get(JoinCheckpoint.Salted)
        .collect { case Parts(number) => number }
        .flatMap(_.toIntOption),
      isChange
    )
  }

  private def shown(columns: StructType): StructType =
    StructType(columns.filter(_.name != JoinCheckpoint.Part))
}

/** Reads keys and values of a join's rows by the columns that its checkpoint names. These may have been read
  * wrongly, so every row is checked, and an error names the run.
  */
private[tailrace] final class StateDecoder(columns: StateColumns) {
  private val keys = new KeyDecoder(columns.key.map(_.dataType).toArray)
  private val lefts = new Values(columns.left)
  private val rights = new Values(columns.right)

  /** @param live the section that the row is in
    * @return a new row
    */
  def key(live: LiveSection, row: RunCursor): InternalRow =
    try keys.decodeWhole(row.keyBytes)
    catch { case NonFatal(e) => throw unreadable(live, columns.key, s"a key has other columns ($e)") }

  /** The value of a left row, until the next call or until the cursor moves. */
  def left(live: LiveSection, row: RunCursor): UnsafeRow = lefts.at(live, row)

  /** The value of a right row, which has no keys; the same. */
  def right(live: LiveSection, row: RunCursor): UnsafeRow = rights.at(live, row)

  private final class Values(schema: StructType) {
    private val value = new UnsafeRow(schema.size)
    private val fit = new RowFit(schema)

    def at(live: LiveSection, row: RunCursor): UnsafeRow = {
      value.pointTo(row.base, RowLayout.valueAt(row.base, row.at), RowLayout.valueLength(row.base, row.at))
      fit.misfit(value).foreach(reason => throw unreadable(live, schema, reason))
      value
    }
  }

  private def unreadable(live: LiveSection, of: StructType, reason: String): Throwable =
    Errors.stateColumnsUnreadable(live.local.name, of.toDDL, reason)
}
