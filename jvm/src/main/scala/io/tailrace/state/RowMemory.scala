package io.tailrace.state

import java.util.concurrent.ArrayBlockingQueue

import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}
import org.apache.spark.unsafe.memory.MemoryBlock

import io.tailrace.common.Errors

/** Blocks of memory for rows, taken from Spark's execution memory, which all tasks of an executor share: what a batch
  * needs is seen, bounded and divided by Spark. Where that is not enough, rows are written out early, by the owner of
  * the [[RowBuffer]]; where that is not possible (one group that doesn't fit), the task fails with an error that says so.
  */
final class RowMemory(manager: TaskMemoryManager)
    extends MemoryConsumer(manager, RowMemory.BlockBytes, MemoryMode.ON_HEAP) {
  private var peak = 0L

  /** The most that was in use at a time. */
  def peakBytes: Long = peak

  /** Rows in use can't be given up in the middle of a merge. */
  override def spill(size: Long, trigger: MemoryConsumer): Long = 0L

  /** Room for at least one row of `bytes` bytes. */
  private[state] def block(bytes: Long): MemoryBlock = {
    val size = Math.max((bytes + 7) & ~7L, RowMemory.BlockBytes)
    reserve(size)
    if (size == RowMemory.BlockBytes) RowMemory.takeBlock()
    else MemoryBlock.fromLongArray(new Array[Long](Math.toIntExact(size / 8)))
  }

  private[state] def release(block: MemoryBlock): Unit = {
    freeMemory(block.size)
    if (block.size == RowMemory.BlockBytes) RowMemory.spare.offer(block)
  }

  /** Counts `bytes` of the heap as the task's. */
  private[state] def reserve(bytes: Long): Unit = {
    val granted = acquireMemory(bytes)
    if (granted < bytes) {
      freeMemory(granted)
      throw Errors.memoryExhausted(bytes, getUsed)
    }
    peak = Math.max(peak, getUsed)
  }
}

object RowMemory {

  /** 256 KiB, far below half a region of the G1 collector, whatever the heap: arrays above that are humongous, take a
    * region each and start a marking of the whole heap every few batches. Spark's own default of up to 64 MiB would be half
    * a gigabyte for the buffers of a task.
    */
  val BlockBytes: Long = 256L << 10

  /** Blocks that no task uses, up to 64 MiB an executor: fresh ones would be zeroed, and copied by the collector, batch
    * after batch.
    */
  private val spare = new ArrayBlockingQueue[MemoryBlock](256)

  private def takeBlock(): MemoryBlock =
    Option(spare.poll()).getOrElse(MemoryBlock.fromLongArray(new Array[Long]((BlockBytes / 8).toInt)))
}
