package io.tailrace.exchange

import org.apache.hadoop.conf.Configuration
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeProjection}
import org.apache.spark.sql.tailrace.SparkState
import org.apache.spark.sql.types._

import io.tailrace.inspect.{StateColumns, StateDecoder}
import io.tailrace.join.Growth
import io.tailrace.rewrite.JoinState
import io.tailrace.state._

/** A partition's state that a task of an export reads, until the task ends. */
private[exchange] final class PartitionState(join: JoinState, partition: Int, conf: Configuration) {
  private val outside = new OutsideState(
    SparkState.localDirectory(s"tailrace-export-${join.operator}-$partition"),
    join.files(join.before, partition, conf),
    join.version,
    join.before.id(partition),
    join.shapes
  )
  // Listeners run in reverse order: cursors are closed before it.
  TaskContext.get().addTaskCompletionListener[Unit](_ => outside.close())

  def state: LoadedState = outside.state

  def sections(kind: StoreKind): Seq[LiveSection] = {
    val found = state.sections.filter(_.section.kind == kind)
    LiveSection.prepare(found)
    found
  }

  /** The rows of a store that count, section by section.
    *
    * @param after rows up to this time are left out
    * @param row   returns a copy
    */
  def rows(kind: StoreKind, after: Long = Long.MinValue)(
      row: (LiveSection, RunCursor) => InternalRow
  ): Iterator[InternalRow] = {
    val rule = LivingRows.of(state).in(kind).after(after)
    sections(kind).iterator.flatMap { live =>
      val cursor = rule.cursor(live)
      TaskContext.get().addTaskCompletionListener[Unit](_ => cursor.close())
      Iterator
        .continually(cursor.isValid)
        .takeWhile { isValid =>
          if (!isValid) cursor.close()
          isValid
        }
        .map { _ =>
          val taken = row(live, cursor.row)
          cursor.next()
          taken
        }
    }
  }
}

/** Rows of a label join of which an export has more than the rows that wait, in a task. */
private[exchange] final class StoredRows(
    join: JoinState,
    columns: StateColumns,
    partition: Int,
    conf: Configuration
) {
  private val opened = new PartitionState(join, partition, conf)
  private val decoder = new StateDecoder(columns)
  private val manifest: Manifest = opened.state.manifest

  /** The right rows, with the columns of the key first, and in the last column the watermark that a late one was behind.
    *
    * @param after of the join's window
    * @param grown earlier windows. Under a longer one, the row was late for left rows that are older by the difference.
    *              So is a row that was as much further behind under the window of now
    */
  def rights(after: Long, grown: Seq[Growth]): Iterator[InternalRow] = {
    val late = new LateBatches(manifest.lateRows)
    val behind = manifest.lateRows.map { batch =>
      val (then, _) = Growth.of(batch.version - 1, grown)
      batch.watermark - Math.max(0L, then.getOrElse(after) - after)
    }.toArray
    val types = (columns.key ++ columns.right).map(_.dataType) :+ TimestampType
    val whole = UnsafeProjection.create(types.toArray[DataType])
    opened.rows(StoreKind.RightKeySorted) { (live, row) =>
      val batch = late.of(row.seq, row.time)
      val last = new GenericInternalRow(Array[Any](if (batch < 0) null else behind(batch)))
      val own = new JoinedRow(decoder.key(live, row), decoder.right(live, row))
      whole(new JoinedRow(own, last)).copy()
    }
  }

  /** What is kept of the left rows that were emitted and may be amended. */
  def emitted: Iterator[InternalRow] =
    opened.rows(StoreKind.LeftOut, after = manifest.amendsAfter.getOrElse(Long.MinValue)) { (live, row) =>
      decoder.left(live, row).copy()
    }
}
