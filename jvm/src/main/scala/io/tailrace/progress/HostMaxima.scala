package io.tailrace.progress

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}

import org.apache.spark.unsafe.types.UTF8String

/** The greatest event time of each host that one task has read. A hash table of Spark's strings: a row of a known host
  * costs a search and a comparison.
  */
private[progress] final class HostMaxima {
  private var used = 0
  private var names = new Array[UTF8String](32)
  private var times = new Array[Long](32)
  private var futures = new Array[Long](32)

  /** Rows that were behind the watermark. */
  var late = 0L

  /** The least completeness that a stamp had, in its units. */
  var share: Long = WatermarkStamp.WholeShare

  def see(host: UTF8String, time: Long): Unit = {
    val slot = slotOf(host)
    if (time > times(slot)) times(slot) = time
  }

  def seeFuture(host: UTF8String): Unit = futures(slotOf(host)) += 1

  private def slotOf(host: UTF8String): Int = {
    val mask = names.length - 1
    val hash = host.hashCode
    var slot = hash & mask
    while (names(slot) != null) {
      if (names(slot) == host) return slot
      slot = (slot + 1) & mask
    }
    // The row's bytes are the next row's soon.
    insert(host.copy())
  }

  private def insert(host: UTF8String): Int = {
    if (used * 2 >= names.length) grow()
    val mask = names.length - 1
    var slot = host.hashCode & mask
    while (names(slot) != null) slot = (slot + 1) & mask
    names(slot) = host
    times(slot) = HostTable.Never
    used += 1
    slot
  }

  private def grow(): Unit = {
    val (oldNames, oldTimes, oldFutures) = (names, times, futures)
    names = new Array(oldNames.length * 2)
    times = new Array(oldNames.length * 2)
    futures = new Array(oldNames.length * 2)
    used = 0
    oldNames.indices.foreach { i =>
      if (oldNames(i) != null) {
        val slot = insert(oldNames(i))
        times(slot) = oldTimes(i)
        futures(slot) = oldFutures(i)
      }
    }
  }

  def future: Long = futures.sum

  /** For the driver: late rows(8), completeness(8), then the entries. */
  def toBytes: Array[Byte] = {
    val table = new HostTable
    names.indices.foreach { i =>
      if (names(i) != null) {
        val host = table.add(names(i).toString)
        table.raise(host, times(i))
        table.addFuture(host, futures(i))
      }
    }
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeLong(late)
    out.writeLong(share)
    HostEntries.write(out, table, (0 until table.size).iterator, table.size)
    bytes.toByteArray
  }
}

private[progress] object HostMaxima {

  def fromBytes(bytes: Array[Byte]): SeenByTask = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    val (late, share) = (in.readLong(), in.readLong())
    val table = new HostTable
    HostEntries.read(in, table)
    SeenByTask(late, share, table)
  }
}

/** @param late  rows behind the watermark
  * @param share the least completeness of a stamp, in its units
  */
private[progress] final case class SeenByTask(late: Long, share: Long, table: HostTable)
