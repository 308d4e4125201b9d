package io.tailrace.join

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.state.{RowBuffer, RowMemory, StoreKind, TailraceStateStore}

/** What one task of a join does with one micro-batch, up to the commit, which is its caller's.
  *
  * @param watermark           for eviction, in microseconds
  * @param lateWatermark       for late rows, in microseconds: the one before
  * @param bufferBytes         see `spark.tailrace.state.batchBufferBytes`
  * @param bucketWidth         in microseconds
  */
final case class JoinTaskContext(
    columns: JoinColumns,
    settings: JoinSettings,
    store: TailraceStateStore,
    memory: RowMemory,
    watermark: Long,
    lateWatermark: Long,
    bufferBytes: Long,
    bucketWidth: Long,
    metric: String => SQLMetric
)

/** `read` both inputs whole, then take all of `output`, then `expire`; `close` whatever happens. */
abstract class JoinTask(context: JoinTaskContext) extends AutoCloseable {
  import context._

  protected val input = new JoinInput(columns, settings, store, memory, lateWatermark, metric)
  protected val leftKind: StoreKind
  protected val window: JoinWindow = settings.window

  /** Writes both inputs into the state. @return rows written */
  def read(left: Iterator[InternalRow], right: Iterator[InternalRow]): Long = {
    val kept = input.readLeft(left, bufferBytes)(flush()) + input.readRight(right, bufferBytes)(flush())
    flush()
    kept
  }

  private def flush(): Unit = {
    added(store.addRun(bucketWidth, leftKind -> input.left, StoreKind.RightKeySorted -> input.right))
    input.left.clear()
    input.right.clear()
  }

  /** Hears of each run that was written. */
  protected def added(sections: Seq[io.tailrace.state.LiveSection]): Unit

  /** All that comes out in this batch; each row is valid until the next one. */
  def output(fields: Int): Iterator[UnsafeRow] = input.aloneRows(fields) ++ joined

  protected def joined: Iterator[UnsafeRow]

  /** Nanoseconds spent on finding what expires and its matches, while `output` was taken. */
  def expiryNanos: Long = 0L

  /** Removes what the watermark has passed. @return rows removed */
  def expire(): Long

  override def close(): Unit = input.close()

  protected def pointTo(row: UnsafeRow, rows: RowBuffer, i: Int): UnsafeRow = {
    row.pointTo(rows.base(i), rows.valueOffset(i), rows.valueLength(i))
    row
  }
}
