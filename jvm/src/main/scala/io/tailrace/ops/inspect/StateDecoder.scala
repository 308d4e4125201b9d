package io.tailrace.ops.inspect

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType

import io.tailrace.common.Errors
import io.tailrace.join.RowFit
import io.tailrace.state.{KeyDecoder, LiveSection, RowLayout, RunCursor}

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
