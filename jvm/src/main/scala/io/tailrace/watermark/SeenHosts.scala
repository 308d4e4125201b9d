package io.tailrace.watermark

import java.io.DataOutputStream
import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.AccumulatorV2

import io.tailrace.driver.SparkWatermark

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
