package io.tailrace.watermark

import java.io.DataOutputStream
import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.AccumulatorV2

import io.tailrace.checkpoint.ExactBytes
import io.tailrace.common.SparkWatermark

/** The hosts that the driver knows when a batch begins, by number. A task sends the times of these hosts
  * without their names, which would be most of the bytes, and most of the driver's work.
  */
private[tailrace] final class HostNumbers(val names: Array[String]) extends Serializable {

  // On executors, once in each.
  @transient private lazy val numbers = {
    val made = new java.util.HashMap[UTF8String, Integer](names.length * 2)
    names.indices.foreach(i => made.put(UTF8String.fromString(names(i)), i))
    made
  }

  def size: Int = names.length

  /** @return the host's number, or -1 */
  def of(host: UTF8String): Int = {
    val number = numbers.get(host)
    if (number == null) -1 else number
  }
}

/** Times by the numbers of hosts, [[SparkWatermark.Never]] for a host without one, as bytes: all of them, or
  * with their numbers if they are few.
  *
  * {{{
  *   n(4) time(8) of each of the n numbers
  *   -1 - count(4), and count times: number(4) time(8)
  * }}}
  */
private[watermark] object NumberedTimes {
  def none(size: Int): Array[Long] = {
    val times = new Array[Long](size)
    Arrays.fill(times, SparkWatermark.Never)
    times
  }

  private def isAll(times: Array[Long], count: Int): Boolean = count * 3L >= times.length * 2L

  /** The bytes that [[write]] writes. */
  def length(times: Array[Long], count: Int): Int =
    4 + (if (isAll(times, count)) Math.multiplyExact(times.length, 8) else Math.multiplyExact(count, 12))

  def write(out: DataOutputStream, times: Array[Long], count: Int): Unit =
    if (isAll(times, count)) {
      out.writeInt(times.length)
      val bytes = ByteBuffer.allocate(Math.multiplyExact(times.length, 8))
      bytes.asLongBuffer.put(times)
      out.write(bytes.array)
    } else {
      out.writeInt(-1 - count)
      times.indices.foreach { number =>
        if (times(number) != SparkWatermark.Never) {
          out.writeInt(number)
          out.writeLong(times(number))
        }
      }
    }

  def raise(times: Array[Long], in: ByteBuffer): Unit = {
    val head = in.getInt()
    var i = 0
    if (head >= 0) while (i < head) {
      val time = in.getLong()
      if (time > times(i)) times(i) = time
      i += 1
    }
    else
      while (i < -1 - head) {
        val (number, time) = (in.getInt(), in.getLong())
        if (time > times(number)) times(number) = time
        i += 1
      }
  }
}

/** The greatest event time of each host that one task has read. Each row costs one search, so this is a hash
  * table in two arrays: a known host is one cell of four numbers and its name, and no object.
  *
  * {{{
  *   cells: hash, 0 for a free cell | greatest time | rows ahead of the clock | offset and length of the name
  *   names: the names' bytes, one after the other
  * }}}
  */
private[tailrace] final class HostMaxima {
  import HostMaxima._

  private var used = 0
  private var cells = new Array[Long](FirstCells * Width)
  private var names = new Array[Byte](FirstCells * 16)
  private var namesEnd = 0

  /** The number of late rows. */
  var late = 0L

  /** The minimum completeness of the stamps, in their units. */
  var share: Long = WatermarkStamp.WholeShare

  def see(host: UTF8String, time: Long): Unit = {
    val cell = cellOf(host)
    if (time > cells(cell + Time)) cells(cell + Time) = time
  }

  def seeFuture(host: UTF8String): Unit = {
    val cell = cellOf(host) // first: it may replace the array
    cells(cell + Future) += 1
  }

  private def cellOf(host: UTF8String): Int = {
    val (base, offset, length) = (host.getBaseObject, host.getBaseOffset, host.numBytes)
    val hash = hashOf(base, offset, length)
    var cell = firstOf(hash)
    while (cells(cell) != 0) {
      if (cells(cell) == hash && isName(cells(cell + Name), base, offset, length)) return cell
      cell = after(cell)
    }
    if (used * 3 >= cells.length / Width * 2) {
      grow()
      cell = firstOf(hash)
      while (cells(cell) != 0) cell = after(cell)
    }
    cells(cell) = hash
    cells(cell + Time) = SparkWatermark.Never
    // Copied: the next row uses the same memory.
    cells(cell + Name) = append(base, offset, length)
    used += 1
    cell
  }

  private def firstOf(hash: Long): Int = ((hash >>> 32).toInt * Width) & (cells.length - 1)
  private def after(cell: Int): Int = (cell + Width) & (cells.length - 1)

  private def isName(name: Long, base: AnyRef, offset: Long, length: Int): Boolean =
    name.toInt == length &&
      ByteArrayMethods.arrayEquals(base, offset, names, Platform.BYTE_ARRAY_OFFSET + (name >>> 32), length)

  private def append(base: AnyRef, offset: Long, length: Int): Long = {
    if (names.length - namesEnd < length) {
      names = Arrays.copyOf(names, Math.max(names.length * 2, Math.addExact(namesEnd, length)))
    }
    val at = namesEnd
    Platform.copyMemory(base, offset, names, Platform.BYTE_ARRAY_OFFSET + at, length)
    namesEnd += length
    at.toLong << 32 | length
  }

  private def grow(): Unit = {
    val old = cells
    cells = new Array(old.length * 2)
    // A list of the cells would take as much memory as the names.
    var from = 0
    while (from < old.length) {
      if (old(from) != 0) {
        var to = firstOf(old(from))
        while (cells(to) != 0) to = after(to)
        System.arraycopy(old, from, cells, to, Width)
      }
      from += Width
    }
  }

  private def known: Iterator[Int] = cells.indices.by(Width).iterator.filter(cells(_) != 0)

  def future: Long = known.map(cell => cells(cell + Future)).sum

  /** The bytes that the driver gets: late rows(8), completeness(8), [[NumberedTimes]], then the entries of
    * hosts without a number, and of those with rows ahead of the clock or without a time.
    *
    * @param numbers the hosts that the driver knows
    */
  def toBytes(numbers: Option[HostNumbers]): Array[Byte] = {
    val times = NumberedTimes.none(numbers.fold(0)(_.size))
    val rest = new Array[Int](used)
    var named, restBytes = 0
    known.foreach { cell =>
      val number = numberOf(cell, numbers)
      if (number >= 0) times(number) = cells(cell + Time)
      else {
        rest(named) = cell
        named += 1
        restBytes = Math.addExact(restBytes, HostEntries.FixedLength + cells(cell + Name).toInt)
      }
    }
    val numbered = used - named
    val bytes = new ExactBytes(Math.addExact(20 + NumberedTimes.length(times, numbered), restBytes))
    val out = new DataOutputStream(bytes)
    out.writeLong(late)
    out.writeLong(share)
    NumberedTimes.write(out, times, numbered)
    out.writeInt(named)
    (0 until named).foreach { i =>
      val cell = rest(i)
      val (name, time, future) = (cells(cell + Name), cells(cell + Time), cells(cell + Future))
      HostEntries.write(out, names, (name >>> 32).toInt, name.toInt, time, future)
    }
    bytes.content
  }

  private def numberOf(cell: Int, numbers: Option[HostNumbers]): Int =
    if (cells(cell + Future) > 0 || cells(cell + Time) == SparkWatermark.Never) -1
    else {
      val name = cells(cell + Name)
      numbers.fold(-1)(_.of(UTF8String.fromBytes(names, (name >>> 32).toInt, name.toInt)))
    }
}

private[watermark] object HostMaxima {

  // Both are powers of two. Below: the places of a cell's numbers.
  private val FirstCells = 64
  private val Width = 4
  private val Time = 1
  private val Future = 2
  private val Name = 3

  private val Spread = 0x9e3779b97f4a7c15L

  /** Hashes eight bytes at a time. The last eight overlap those before them. The hash is never 0. */
  private def hashOf(base: AnyRef, offset: Long, length: Int): Long = {
    var hash = length * Spread
    var i = 0
    while (i + 8 <= length) {
      hash = mixed(hash, Platform.getLong(base, offset + i))
      i += 8
    }
    if (i < length) {
      if (length >= 8) hash = mixed(hash, Platform.getLong(base, offset + length - 8))
      else
        while (i < length) {
          hash = mixed(hash, Platform.getByte(base, offset + i).toLong)
          i += 1
        }
    }
    hash | 1
  }

  private def mixed(hash: Long, word: Long): Long = {
    val product = (hash ^ word) * Spread
    product ^ (product >>> 32)
  }
}

/** The observations of a task, as they are sent to the driver. Of two runs over a partition, the one with
  * fewer rows has stopped earlier.
  *
  * @param bytes of a [[HostMaxima]]
  */
private[tailrace] final case class TaskProgress(rows: Long, bytes: Array[Byte])

/** The observations of the tasks of one node of the source.
  *
  * @param late  late rows
  * @param share the minimum completeness of the stamps, in their units
  */
private[tailrace] final case class SeenHosts(late: Long, share: Long, table: HostTable)

private[watermark] object SeenHosts {

  /** Sums up a batch.
    *
    * @param nodes of the source. A DataFrame that is used twice in a query has two, and the same rows pass
    *              both: the greater counts are taken
    */
  def inBatch(nodes: Iterable[SeenHosts]): SeenHosts =
    nodes.reduceOption(ofSource(_, _)).getOrElse(SeenHosts(0, WatermarkStamp.WholeShare, new HostTable))

  private def ofSource(all: SeenHosts, node: SeenHosts): SeenHosts = {
    all.table.raiseAll(node.table)
    all.copy(late = Math.max(all.late, node.late), share = Math.min(all.share, node.share))
  }
}

/** Brings the observations of tasks to the driver, which merges each as it arrives: with 5,000 tasks of 10,000
  * hosts, all of them together would be more than its memory.
  *
  * Times are merged by their maximum, so it doesn't matter how often a partition is read. Counts are those of
  * the task that has read the most of its partition, as in [[io.tailrace.driver.PartitionAccumulator]].
  *
  * @param numbers the hosts that tasks send by number, on the driver
  */
private[tailrace] final class HostAccumulator(@transient private val numbers: Option[HostNumbers])
    extends AccumulatorV2[(Int, TaskProgress), SeenHosts] {

  // In a task. Immutable, because a heartbeat reads it in another thread.
  @volatile private var sent = List.empty[(Int, TaskProgress)]

  // On the driver. An executor's copy has none.
  @transient private lazy val node = new HostAccumulator.Node(Option(numbers).flatten)

  override def isZero: Boolean = sent.isEmpty && node.isEmpty
  override def reset(): Unit = throw new UnsupportedOperationException("a batch has accumulators of its own")
  override def copyAndReset(): HostAccumulator = new HostAccumulator(None)

  override def copy(): HostAccumulator = {
    val same = new HostAccumulator(numbers)
    same.sent = sent
    same
  }

  /** @param more the node's partition, and the observations of a task over it */
  override def add(more: (Int, TaskProgress)): Unit = sent ::= more

  override def merge(other: AccumulatorV2[(Int, TaskProgress), SeenHosts]): Unit = other match {
    case task: HostAccumulator => task.sent.foreach { case (partition, seen) => node.take(partition, seen) }
    case _ => throw new UnsupportedOperationException(s"it can't merge ${other.getClass}")
  }

  override def value: SeenHosts = node.value
}

private object HostAccumulator {

  /** @param future hosts with rows ahead of the clock, and how many */
  private final case class Counts(rows: Long, late: Long, share: Long, future: Seq[(Int, Long)])

  private final class Node(numbers: Option[HostNumbers]) {
    private val times = NumberedTimes.none(numbers.fold(0)(_.size))
    private var table = new HostTable
    // It isn't copied for the driver, as there may be a million hosts; but for a task that comes late.
    private var isGiven = false
    private val counts = mutable.HashMap.empty[Int, Counts]

    def isEmpty: Boolean = synchronized(counts.isEmpty)

    def take(partition: Int, task: TaskProgress): Unit = synchronized {
      if (isGiven) {
        val before = table
        table = new HostTable
        (0 until before.size).foreach(host => table.raise(table.add(before, host), before.time(host)))
        isGiven = false
      }
      val in = ByteBuffer.wrap(task.bytes)
      val (late, share) = (in.getLong(), in.getLong())
      NumberedTimes.raise(times, in)
      val future = Seq.newBuilder[(Int, Long)]
      HostEntries.each(in, table) { (host, time, rows) =>
        table.raise(host, time): Unit
        if (rows > 0) future += host -> rows
      }
      if (counts.get(partition).forall(_.rows < task.rows))
        counts(partition) = Counts(task.rows, late, share, future.result())
    }

    def value: SeenHosts = synchronized {
      if (!isGiven) {
        times.indices.foreach { number =>
          if (times(number) != SparkWatermark.Never)
            table.raise(table.add(numbers.get.names(number)), times(number)): Unit
        }
        counts.values.foreach(_.future.foreach { case (host, rows) => table.addFuture(host, rows) })
        isGiven = true
      }
      val share = counts.values.map(_.share).minOption.getOrElse(WatermarkStamp.WholeShare)
      SeenHosts(counts.values.map(_.late).sum, share, table)
    }
  }
}
