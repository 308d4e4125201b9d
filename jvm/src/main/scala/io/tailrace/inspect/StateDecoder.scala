package io.tailrace.inspect

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

  /** @param live the section that the row is in
    * @return a new row
    */
  def key(live: LiveSection, row: RunCursor): InternalRow =
    try keys.decodeWhole(row.keyBytes)
    catch { case NonFatal(e) => throw unreadable(live, columns.key, s"a key has other columns ($e)") }

  /** @param into points to the value, until the cursor moves
    * @param schema the left or the right columns
    */
  def value(live: LiveSection, row: RunCursor, schema: StructType, into: UnsafeRow): UnsafeRow = {
    into.pointTo(row.base, RowLayout.valueAt(row.base, row.at), RowLayout.valueLength(row.base, row.at))
    RowFit.misfit(into, schema).foreach(reason => throw unreadable(live, schema, reason))
    into
  }

  private def unreadable(live: LiveSection, of: StructType, reason: String): Throwable =
    Errors.stateColumnsUnreadable(live.local.name, of.toDDL, reason)
}
