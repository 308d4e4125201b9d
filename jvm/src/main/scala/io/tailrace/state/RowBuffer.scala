package io.tailrace.state

import java.util.Arrays
import java.util.concurrent.ArrayBlockingQueue

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.MemoryBlock

import io.tailrace.common.{MemoryErrors, ProcessPart, RowMemoryExhausted}

/** Rows of one batch, in the bytes of [[RowLayout]], with an index of plain arrays, which [[RowSort]] sorts
  * without touching a row. Rows are numbered from 0 in the order of `append`. A row with an empty key matches
  * nothing.
  *
  * @param makeRoom called when Spark has no memory left for a row. It may write out and clear these rows and
  *                 others. If it returns true, it has given memory back, and the row is tried again
  */
final class RowBuffer(memory: RowMemory, makeRoom: () => Boolean = () => false) extends AutoCloseable {
  private val blocks = new ArrayBuffer[MemoryBlock]
  private var bases = new Array[AnyRef](4)
  private var blockUsed = 0L
  private var blockSize = 0L
  private var rowBytes = 0L
  private var indexReserved = 0L

  private var shortestKey = Int.MaxValue
  private var longestKey = 0

  private var count = 0
  private var times = new Array[Long](0)
  private var prefixes = new Array[Long](0)
  private var blockOf = new Array[Int](0)
  private var offsets = new Array[Long](0)

  def size: Int = count
  def isEmpty: Boolean = count == 0

  /** Bytes of its rows. Memory that it keeps for the next rows doesn't count. */
  def bytes: Long = rowBytes + count.toLong * RowBuffer.IndexBytesPerRow

  /** The position of the row: see [[RowLayout]]. */
  def base(row: Int): AnyRef = bases(blockOf(row))
  def at(row: Int): Long = offsets(row)

  def time(row: Int): Long = times(row)
  def seq(row: Int): Long = RowLayout.seq(base(row), at(row))

  /** See [[RowLayout.keyPrefix]]. */
  def keyPrefix(row: Int): Long = prefixes(row)
  def keyLength(row: Int): Int = RowLayout.keyLength(base(row), at(row))
  def valueOffset(row: Int): Long = RowLayout.valueAt(base(row), at(row))
  def valueLength(row: Int): Int = RowLayout.valueLength(base(row), at(row))

  /** True if rows with equal [[keyPrefix]] have equal keys: all keys have one length, and fit into it. */
  def prefixesAreKeys: Boolean = longestKey <= 8 && shortestKey >= longestKey

  /** True if some rows have an empty key. */
  def hasEmptyKeys: Boolean = shortestKey == 0

  private[state] def timesOf: Array[Long] = times
  private[state] def prefixesOf: Array[Long] = prefixes

  /** Appends a row whose value is one of Spark's. @return its number */
  def append(key: Array[Byte], keyLength: Int, time: Long, seq: Long, value: UnsafeRow): Int =
    append(key, keyLength, time, seq, value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)

  /** Appends a row made of its parts. @return its number */
  def append(
      key: Array[Byte],
      keyLength: Int,
      time: Long,
      seq: Long,
      valueBase: AnyRef,
      valueOffset: Long,
      valueLength: Int
  ): Int = {
    val to = reserve(RowLayout.length(keyLength, valueLength))
    val base = bases(blocks.size - 1)
    RowLayout.writeHeader(base, to, time, seq, keyLength, valueLength)
    Platform.copyMemory(key, Platform.BYTE_ARRAY_OFFSET.toLong, base, RowLayout.keyAt(to), keyLength.toLong)
    Platform.copyMemory(valueBase, valueOffset, base, RowLayout.valueAt(base, to), valueLength.toLong)
    index(time, RowLayout.keyPrefix(base, to), keyLength, to)
  }

  /** Appends a copy of a row. @return its number */
  def appendRow(from: AnyRef, fromAt: Long): Int = {
    val length = RowLayout.length(from, fromAt)
    val to = reserve(length)
    val base = bases(blocks.size - 1)
    Platform.copyMemory(from, fromAt, base, to, length)
    index(RowLayout.time(base, to), RowLayout.keyPrefix(base, to), RowLayout.keyLength(base, to), to)
  }

  /** Appends a copy of a row if there is memory for it. The first row must have room. @return whether it was
    * appended
    */
  def appendIfRoom(from: AnyRef, fromAt: Long): Boolean =
    try {
      appendRow(from, fromAt): Unit
      true
    } catch { case _: RowMemoryExhausted if !isEmpty => false }

  /** Appends a copy of a row without its value. @return its number */
  def appendKey(from: AnyRef, fromAt: Long): Int = {
    val keyLength = RowLayout.keyLength(from, fromAt)
    val to = reserve(RowLayout.length(keyLength, 0))
    val base = bases(blocks.size - 1)
    RowLayout.copyKey(from, fromAt, base, to)
    index(RowLayout.time(base, to), RowLayout.keyPrefix(base, to), keyLength, to)
  }

  /** Appends a copy of a row without its key. @return its number */
  def appendWithoutKey(from: AnyRef, fromAt: Long): Int = {
    val time = RowLayout.time(from, fromAt)
    val seq = RowLayout.seq(from, fromAt)
    val valueAt = RowLayout.valueAt(from, fromAt)
    append(Array.emptyByteArray, 0, time, seq, from, valueAt, RowLayout.valueLength(from, fromAt))
  }

  private def reserve(length: Long): Long = {
    if (count == times.length || blockUsed + length > blockSize) growOrMakeRoom(length)
    val to = blocks(blocks.size - 1).getBaseOffset + blockUsed
    blockUsed += length
    rowBytes += length
    to
  }

  private def index(time: Long, prefix: Long, keyLength: Int, at: Long): Int = {
    if (keyLength < shortestKey) shortestKey = keyLength
    if (keyLength > longestKey) longestKey = keyLength
    times(count) = time
    prefixes(count) = prefix
    blockOf(count) = blocks.size - 1
    offsets(count) = at
    count += 1
    count - 1
  }

  /** Byte order of two keys, as in a run. */
  def compareKeys(a: Int, b: Int): Int =
    if (prefixesAreKeys) java.lang.Long.compareUnsigned(prefixes(a), prefixes(b))
    else RowLayout.compareKeys(prefixes(a), base(a), at(a), prefixes(b), base(b), at(b))

  /** Byte order of two values. It decides between matches of the same time. */
  def compareValues(a: Int, b: Int): Int = RowLayout.compareValues(base(a), at(a), base(b), at(b))

  /** Gives a row another sequence number. */
  def renumber(row: Int, seq: Long): Unit = RowLayout.writeSeq(base(row), at(row), seq)

  /** Takes the memory for the first rows now: later there may be none, when others have taken it. */
  def prepare(): RowBuffer = {
    if (times.isEmpty) growIndex()
    if (blocks.isEmpty) newBlock(1)
    this
  }

  /** Removes the rows, and keeps one block for the next ones. */
  def clear(): Unit = {
    forget()
    while (blocks.size > 1) dropLastBlock()
    // It was made for one large row.
    if (blocks.nonEmpty && blocks.head.size > RowMemory.BlockBytes) dropLastBlock()
    blockSize = if (blocks.isEmpty) 0 else blocks.head.size
  }

  /** Removes the rows, and gives all memory back. The buffer can be filled again. */
  def release(): Unit = {
    forget()
    while (blocks.nonEmpty) dropLastBlock()
    blockSize = 0
    memory.giveBack(indexReserved)
    indexReserved = 0
    times = new Array[Long](0)
    prefixes = times
    blockOf = new Array[Int](0)
    offsets = times
  }

  private def forget(): Unit = {
    count = 0
    shortestKey = Int.MaxValue
    longestKey = 0
    blockUsed = 0
    rowBytes = 0
  }

  private def bytesOf(from: Int, until: Int): Long = {
    var sum = 0L
    var row = from
    while (row < until) {
      sum += RowLayout.length(base(row), at(row))
      row += 1
    }
    sum
  }

  /** Removes the first rows, and gives back blocks that have no other rows. The rest is numbered from 0. */
  def dropFirst(rows: Int): Unit =
    if (rows == count) clear()
    else if (rows > 0) {
      rowBytes -= bytesOf(0, rows)
      val dead = blockOf(rows)
      count -= rows
      System.arraycopy(times, rows, times, 0, count)
      System.arraycopy(prefixes, rows, prefixes, 0, count)
      System.arraycopy(blockOf, rows, blockOf, 0, count)
      System.arraycopy(offsets, rows, offsets, 0, count)
      if (dead > 0) {
        blocks.take(dead).foreach(memory.release)
        blocks.remove(0, dead)
        System.arraycopy(bases, dead, bases, 0, blocks.size)
        Arrays.fill(bases, blocks.size, bases.length, null)
        var row = 0
        while (row < count) {
          blockOf(row) -= dead
          row += 1
        }
      }
    }

  /** Removes the rows from number `rows` on. */
  def truncate(rows: Int): Unit =
    if (rows == 0) clear()
    else if (rows < count) {
      rowBytes -= bytesOf(rows, count)
      count = rows
      while (blocks.size > blockOf(rows - 1) + 1) dropLastBlock()
      val last = blocks.last
      blockSize = last.size
      blockUsed = at(rows - 1) + RowLayout.length(base(rows - 1), at(rows - 1)) - last.getBaseOffset
    }

  override def close(): Unit = release()

  private def dropLastBlock(): Unit = {
    bases(blocks.size - 1) = null
    memory.release(blocks.remove(blocks.size - 1))
  }

  private def growOrMakeRoom(length: Long): Unit =
    try grow(length)
    catch { case _: RowMemoryExhausted if makeRoom() => grow(length) }

  private def grow(length: Long): Unit = {
    if (count == times.length) growIndex()
    if (blockUsed + length > blockSize) newBlock(length)
  }

  private def newBlock(needed: Long): Unit = {
    val block = memory.block(needed, always = count == 0)
    blocks += block
    if (bases.length < blocks.size) bases = Arrays.copyOf(bases, blocks.size * 2)
    bases(blocks.size - 1) = block.getBaseObject
    blockUsed = 0
    blockSize = block.size
  }

  private def growIndex(): Unit = {
    val capacity = Math.max(1024, times.length * 2)
    val bytes = capacity.toLong * RowBuffer.IndexBytesPerRow
    memory.reserve(bytes - indexReserved, always = count == 0)
    indexReserved = bytes
    times = Arrays.copyOf(times, capacity)
    prefixes = Arrays.copyOf(prefixes, capacity)
    blockOf = Arrays.copyOf(blockOf, capacity)
    offsets = Arrays.copyOf(offsets, capacity)
  }
}

object RowBuffer {

  /** Three longs and an int for each row, three ints to sort it, and two longs to merge it. */
  private val IndexBytesPerRow = 3 * 8 + 4 + 3 * 4 + 2 * 8
}

/** Blocks of memory for rows, out of Spark's execution memory, which the tasks of an executor share. If Spark
  * has none left, the owner of a [[RowBuffer]] writes its rows out early and continues. An empty buffer gets
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
    val unused = if (size == RowMemory.BlockBytes) RowMemory.spare.here.poll() else null
    if (unused != null) unused else MemoryBlock.fromLongArray(new Array[Long](Math.toIntExact(size / 8)))
  }

  private[state] def release(block: MemoryBlock): Unit = {
    giveBack(block.size)
    if (block.size == RowMemory.BlockBytes) RowMemory.spare.here.offer(block)
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
  private val spare = new ProcessPart("spare blocks")({
    val bytes = Math.min(64L << 20, Runtime.getRuntime.maxMemory / 16)
    new ArrayBlockingQueue[MemoryBlock](Math.max(1, (bytes / BlockBytes).toInt))
  })
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

  /** A buffer may always hold this many bytes. */
  private val Unasked = 4L << 20
}

/** Gathers rows, and writes them out when they are many, or when Spark has no memory left for them.
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
