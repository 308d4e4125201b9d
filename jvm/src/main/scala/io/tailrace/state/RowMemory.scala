package io.tailrace.state

import org.apache.spark.memory.{MemoryConsumer, TaskMemoryManager}
import org.apache.spark.unsafe.memory.MemoryBlock

/** Pages for rows, taken from Spark's task memory: what a batch needs is seen and bounded by Spark, and a task that asks
  * for too much fails with Spark's own out-of-memory error, which names this consumer, instead of being killed.
  */
final class RowMemory(manager: TaskMemoryManager)
    extends MemoryConsumer(manager, RowMemory.PageBytes, manager.getTungstenMemoryMode) {

  /** Rows in use can't be given up half-way through a batch: a [[RowBuffer]] is written out by its owner instead. */
  override def spill(size: Long, trigger: MemoryConsumer): Long = 0L

  private[state] def page(bytes: Long): MemoryBlock = allocatePage(bytes)
  private[state] def release(page: MemoryBlock): Unit = freePage(page)

  /** Counts `bytes` of plain Java arrays; throws if Spark has not as much. */
  private[state] def reserve(bytes: Long): Unit = {
    val granted = acquireMemory(bytes)
    if (granted < bytes) {
      freeMemory(granted)
      throw new OutOfMemoryError(
        s"Tailrace needs $bytes bytes for the row index of a batch; Spark granted $granted"
      )
    }
  }
}

object RowMemory {

  /** One MiB: Spark's default of up to 64 MiB a page would be half a gigabyte for the buffers of a task. */
  val PageBytes: Long = 1L << 20
}
