package io.tailrace.label

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.tailrace.join.{StoredJoinContext, StoredJoinTask}
import io.tailrace.state.RowBuffer

/** A task of the label join. */
abstract class JoinTask(context: StoredJoinContext, settings: JoinSettings, times: LabelJoinTimes)
    extends StoredJoinTask {
  import context._

  private val input =
    new JoinInput(columns, settings, store, memory, times.lateWatermark, bufferBytes, metric, () => flush())
  protected val window: JoinWindow = settings.window
  private var flushNanos = 0L

  override def output(left: Iterator[InternalRow], right: Iterator[InternalRow]): Iterator[InternalRow] =
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
