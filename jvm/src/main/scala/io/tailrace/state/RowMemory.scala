package io.tailrace.state

import java.util.concurrent.ArrayBlockingQueue

import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.memory.MemoryBlock

import io.tailrace.common.MemoryErrors

/** Blocks of memory for rows, out of Spark's execution memory, which the tasks of an executor share. If Spark
  * gives no more, the owner of a [[RowBuffer]] writes its rows out early and continues. An empty buffer gets
  * room for one row even if Spark gives none, up to a small sum. So only data that must be in memory as a
  * whole (one large row, the group of one left row) can make a task fail, with an error that says so.
  */
final class RowMemory(manager: TaskMemoryManager)
    extends MemoryConsumer(manager, RowMemory.BlockBytes, MemoryMode.ON_HEAP) {
  private var peak = 0L
  // Memory in use that Spark has not given.
  private var owed = 0L

  /** The most memory that was in use at a time. */
  def peakBytes: Long = peak

  /** Rows can't be given up in the middle of a merge. */
  override def spill(size: Long, trigger: MemoryConsumer): Long = 0L

  /** The bytes, up to `most`, that Spark would give now. It may be less a moment later. */
  def available(most: Long): Long = {
    val granted = acquireMemory(most)
    freeMemory(granted)
    granted
  }

  /** A block for at least one row of `bytes` bytes.
    *
    * @param always see [[reserve]]
    */
  private[state] def block(bytes: Long, always: Boolean = false): MemoryBlock = {
    val size = Math.max((bytes + 7) & ~7L, RowMemory.BlockBytes)
    reserve(size, always)
    val unused = if (size == RowMemory.BlockBytes) RowMemory.spare.poll() else null
    if (unused != null) unused else MemoryBlock.fromLongArray(new Array[Long](Math.toIntExact(size / 8)))
  }

  private[state] def release(block: MemoryBlock): Unit = {
    giveBack(block.size)
    if (block.size == RowMemory.BlockBytes) RowMemory.spare.offer(block)
  }

  /** Counts `bytes` of the heap as the task's.
    *
    * @param always whether to take a small sum that Spark doesn't give: the task can't go on without it
    */
  def reserve(bytes: Long, always: Boolean = false): Unit = {
    val granted = acquireMemory(bytes)
    if (granted < bytes) {
      freeMemory(granted)
      if (!always || owed + bytes > RowMemory.MostOwed) throw MemoryErrors.exhausted(bytes, getUsed)
      owed += bytes
    }
    peak = Math.max(peak, getUsed + owed)
  }

  /** Takes back bytes that `reserve` has counted. */
  def giveBack(bytes: Long): Unit = {
    val paid = Math.min(owed, bytes)
    owed -= paid
    freeMemory(bytes - paid)
  }
}

object RowMemory {

  /** 256 KiB, below half a region of the G1 collector for any heap. Larger arrays take a region each, and
    * make the collector mark the whole heap every few batches. With Spark's default of up to 64 MiB, the
    * buffers of a task would take half a gigabyte.
    */
  val BlockBytes: Long = 256L << 10

  /** The most that a task takes although Spark doesn't give it: each of its buffers can hold a row. */
  private val MostOwed = 16L << 20

  /** Blocks that no task uses, up to 64 MiB and a sixteenth of the executor's heap. New blocks would be
    * zeroed in each batch, and copied by the collector.
    */
  private val spare = {
    val bytes = Math.min(64L << 20, Runtime.getRuntime.maxMemory / 16)
    new ArrayBlockingQueue[MemoryBlock](Math.max(1, (bytes / BlockBytes).toInt))
  }
}

/** Limits one of a task's buffers to `most` bytes and to half of the memory that there is, so that memory is
  * left for the others. It asks Spark only when the buffer is large: to ask may cost others their memory.
  */
final class MemoryShare(memory: RowMemory, most: Long) {
  private val unasked = Math.min(most, MemoryShare.Unasked)
  private var limit = 0L
  private var asked = false
  reset()

  /** The buffer is empty again. */
  def reset(): Unit = {
    limit = unasked
    asked = most == unasked
  }

  /** True if a buffer that holds `bytes` bytes is full. */
  def isFull(bytes: Long): Boolean = bytes >= limit && {
    if (!asked) {
      asked = true
      limit = Math.max(unasked, Math.min(most, (bytes + memory.available(2 * most)) / 2))
    }
    bytes >= limit
  }
}

object MemoryShare {

  /** A buffer may always hold so many bytes. */
  private val Unasked = 4L << 20
}

/** Gathers rows, and writes them out when they are many, or when Spark has no more memory for them.
  *
  * @param limit    bytes that it may hold
  * @param flush    writes the rows out and clears the buffer
  * @param makeRoom see [[RowBuffer]]
  */
final class FlushingRows(memory: RowMemory, limit: Long, flush: () => Unit, makeRoom: () => Boolean) {
  val rows = new RowBuffer(memory, makeRoom)

  def append(key: Array[Byte], keyLength: Int, time: Long, seq: Long, value: UnsafeRow): Unit =
    append(key, keyLength, time, seq, value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)

  /** Appends a row made of its parts. */
  def append(
      key: Array[Byte],
      keyLength: Int,
      time: Long,
      seq: Long,
      valueBase: AnyRef,
      valueOffset: Long,
      valueLength: Int
  ): Unit = {
    rows.append(key, keyLength, time, seq, valueBase, valueOffset, valueLength)
    if (rows.bytes > limit) flush()
  }

  /** Appends a copy of a row: see [[RowLayout]]. */
  def appendRow(base: AnyRef, at: Long): Unit = {
    rows.appendRow(base, at)
    if (rows.bytes > limit) flush()
  }
}
