package io.tailrace.state

import org.apache.spark.memory.{MemoryConsumer, TaskMemoryManager}
import org.apache.spark.unsafe.memory.MemoryBlock

/** Blocks of memory for rows, taken from Spark's task memory: what a batch needs is seen and bounded by Spark, and a task that asks
  * for too much fails with Spark's own out-of-memory error, which names this consumer, instead of being killed.
  */
final class RowMemory(manager: TaskMemoryManager)
    extends MemoryConsumer(manager, RowMemory.BlockBytes, manager.getTungstenMemoryMode) {

  /** Rows in use can't be given up half-way through a batch: a [[RowBuffer]] is written out by its owner instead. */
  override def spill(size: Long, trigger: MemoryConsumer): Long = 0L

  private[state] def block(bytes: Long): MemoryBlock = allocatePage(bytes)
  private[state] def release(block: MemoryBlock): Unit = freePage(block)

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

  /** 256 KiB, far below half a region of the G1 collector, whatever the heap: arrays above that are humongous, take a
    * region each and start a marking of the whole heap every few batches. Spark's own default of up to 64 MiB would be half
    * a gigabyte for the buffers of a task.
    */
  val BlockBytes: Long = 256L << 10
}
