package io.tailrace.watermark

import java.io.DataOutputStream
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import io.tailrace.checkpoint.CheckedBytes
import io.tailrace.driver.SparkWatermark

/** For each host, the greatest event time read from its log, in microseconds, and how many of its rows were
  * ahead of the clock. Times only grow, so tables may be merged in any order and any number of times.
  *
  * This is a hash table over plain arrays, because there may be a million hosts. It isn't thread-safe.
  */
final class HostTable {
  import HostTable._

  private var used = 0
  private var slots = emptySlots(16)
  private var names = new Array[String](16)
  private var times = new Array[Long](16)
  private var futures = new Array[Long](16)

  /** Hosts are numbered from 0 in the order in which they were added. */
  def size: Int = used
  def name(host: Int): String = names(host)

  /** [[SparkWatermark.Never]] if no row of the host has been read. */
  def time(host: Int): Long = times(host)

  /** Rows that were ahead of the clock by more than the limit. */
  def future(host: Int): Long = futures(host)

  /** @return the host's number, or -1 */
  def find(name: String): Int = {
    var slot = spread(name) & (slots.length - 1)
    while (slots(slot) >= 0) {
      if (names(slots(slot)) == name) return slots(slot)
      slot = (slot + 1) & (slots.length - 1)
    }
    -1
  }

  /** @return the host's number. A new host gets a new one */
  def add(name: String): Int = {
    val found = find(name)
    if (found >= 0) found
    else {
      if (used == names.length) grow()
      names(used) = name
      times(used) = SparkWatermark.Never
      link(used)
      used += 1
      used - 1
    }
  }

  /** @return whether the time is later than before */
  def raise(host: Int, time: Long): Boolean = {
    val further = time > times(host)
    if (further) times(host) = time
    further
  }

  def addFuture(host: Int, rows: Long): Unit = futures(host) += rows

  /** Merges an entry of a table of the same rows.
    *
    * @return the host's number
    */
  def raise(name: String, time: Long, future: Long): Int = {
    val host = add(name)
    raise(host, time): Unit
    futures(host) = Math.max(futures(host), future)
    host
  }

  /** Merges a table of the same rows. */
  def raiseAll(from: HostTable): Unit =
    (0 until from.size).foreach(i => raise(from.name(i), from.time(i), from.future(i)))

  private def link(host: Int): Unit = {
    var slot = spread(names(host)) & (slots.length - 1)
    while (slots(slot) >= 0) slot = (slot + 1) & (slots.length - 1)
    slots(slot) = host
  }

  private def grow(): Unit = {
    val capacity = names.length * 2
    names = Arrays.copyOf(names, capacity)
    times = Arrays.copyOf(times, capacity)
    futures = Arrays.copyOf(futures, capacity)
    slots = emptySlots(capacity)
    (0 until used).foreach(link)
  }
}

object HostTable {

  /** Names of hosts differ in their last characters. This spreads the difference over all bits. */
  private def spread(name: String): Int = {
    val mixed = name.hashCode * 0x9e3779b9
    mixed ^ (mixed >>> 16)
  }

  /** Half of the slots stay free, so that searches are short. */
  private def emptySlots(capacity: Int): Array[Int] = {
    val slots = new Array[Int](capacity * 2)
    Arrays.fill(slots, -1)
    slots
  }
}

/** Entries of a [[HostTable]] as bytes, in files and in what tasks send: big-endian, see
  * `jvm/docs/formats.md`.
  */
private[watermark] object HostEntries {

  def write(out: DataOutputStream, table: HostTable, hosts: Array[Int]): Unit = {
    out.writeInt(hosts.length)
    hosts.foreach { host =>
      val name = table.name(host).getBytes(UTF_8)
      write(out, name, 0, name.length, table.time(host), table.future(host))
    }
  }

  /** Writes one entry. Its name is `length` bytes of `name` from `at`. */
  def write(
      out: DataOutputStream,
      name: Array[Byte],
      at: Int,
      length: Int,
      time: Long,
      future: Long
  ): Unit = {
    out.writeInt(length)
    out.write(name, at, length)
    out.writeLong(time)
    out.writeLong(future)
  }

  /** @throws java.nio.BufferUnderflowException if the bytes end too soon, or lengths make no sense */
  def read(in: ByteBuffer, into: HostTable): Unit =
    each(in)((name, time, future) => into.raise(name, time, future): Unit)

  /** Reads entries. `entry` is given the name, the time and the rows ahead of the clock of each. */
  def each(in: ByteBuffer)(entry: (String, Long, Long) => Unit): Unit =
    (0 until in.getInt()).foreach(_ => entry(CheckedBytes.readText(in), in.getLong(), in.getLong()))
}
