package io.tailrace.label

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric

import io.tailrace.join.{JoinColumns, StoredJoinTask}
import io.tailrace.state.{RowBuffer, RowMemory, TailraceStateStore}

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

/** A task of the label join. */
abstract class JoinTask(context: JoinTaskContext) extends StoredJoinTask {
  import context._

  private val input =
    new JoinInput(columns, settings, store, memory, lateWatermark, bufferBytes, metric, () => flush())
  protected val window: JoinWindow = settings.window
  private var flushNanos = 0L

  override def output(left: Iterator[InternalRow], right: Iterator[InternalRow]): Iterator[UnsafeRow] =
    input.readLeft(left) ++ input.readRight(right) ++ {
      val started = System.nanoTime
      flush()
      // What is to come needs memory, too.
      input.release()
      flushNanos = System.nanoTime - started
      joined
    }

  override def rowsKept: Long = input.rowsKept
  override def updateNanos: Long = input.readNanos + flushNanos

  private def flush(): Unit = {
    write(input.left, input.right)
    input.left.clear()
    input.right.clear()
  }

  /** Writes rows of the batch into the state; several times where they are many. */
  protected def write(left: RowBuffer, right: RowBuffer): Unit

  /** What the state gives, once all of the batch is in it. */
  protected def joined: Iterator[UnsafeRow]

  override def expiryNanos: Long = 0L

  override def close(): Unit = input.close()

  protected def pointTo(row: UnsafeRow, rows: RowBuffer, i: Int): UnsafeRow = {
    row.pointTo(rows.base(i), rows.valueOffset(i), rows.valueLength(i))
    row
  }
}
