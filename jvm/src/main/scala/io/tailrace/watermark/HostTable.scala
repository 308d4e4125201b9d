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
  * This is a hash table over plain arrays, because there may be a million hosts: 28 bytes each, and the name.
  * It isn't thread-safe.
  *
  * {{{
  *   names   web-1db-17      the UTF-8 bytes, one after the other
  *   ends    5    10         of each host
  * }}}
  */
final class HostTable {
  import HostTable._

  private var used = 0
  private var slots = emptySlots(16)
  private var names = new Array[Byte](256)
  private var ends = new Array[Int](16)
  private var times = new Array[Long](16)
  private var futures = new Array[Long](16)

  /** Hosts are numbered from 0 in the order in which they were added. */
  def size: Int = used
  def name(host: Int): String = new String(names, start(host), length(host), UTF_8)

  private def start(host: Int): Int = if (host == 0) 0 else ends(host - 1)
  private def length(host: Int): Int = ends(host) - start(host)

  /** [[SparkWatermark.Never]] if no row of the host has been read. */
  def time(host: Int): Long = times(host)

  /** The greatest time of all hosts; [[SparkWatermark.Never]] if no row has been read. */
  def furthest: Long = {
    var greatest = SparkWatermark.Never
    var host = 0
    while (host < used) {
      greatest = Math.max(greatest, times(host))
      host += 1
    }
    greatest
  }

  /** Rows that were ahead of the clock by more than the limit. */
  def future(host: Int): Long = futures(host)

  /** @return the host's number, or -1 */
  def find(name: String): Int = {
    val bytes = name.getBytes(UTF_8)
    slots(slotOf(bytes, 0, bytes.length))
  }

  /** @return the host's number. A new host gets a new one */
  def add(name: String): Int = {
    val bytes = name.getBytes(UTF_8)
    add(bytes, 0, bytes.length)
  }

  /** The same by the UTF-8 bytes of the name: `size` of `bytes` from `at`. */
  def add(bytes: Array[Byte], at: Int, size: Int): Int = {
    val found = slots(slotOf(bytes, at, size))
    if (found >= 0) found
    else {
      if (used == ends.length) grow()
      val from = if (used == 0) 0 else ends(used - 1)
      val end = Math.addExact(from, size)
      if (end > names.length) names = Arrays.copyOf(names, Math.max(end, longer(names.length)))
      System.arraycopy(bytes, at, names, from, size)
      ends(used) = end
      times(used) = SparkWatermark.Never
      slots(slotOf(bytes, at, size)) = used
      used += 1
      used - 1
    }
  }

  /** The same by another table's host. */
  def add(from: HostTable, host: Int): Int = add(from.names, from.start(host), from.length(host))

  /** @return whether the time is later than before */
  def raise(host: Int, time: Long): Boolean = {
    val further = time > times(host)
    if (further) times(host) = time
    further
  }

  def addFuture(host: Int, rows: Long): Unit = futures(host) += rows

  /** Merges an entry of a table of the same rows. */
  def raise(host: Int, time: Long, future: Long): Unit = {
    raise(host, time): Unit
    futures(host) = Math.max(futures(host), future)
  }

  /** Merges a table of the same rows. */
  def raiseAll(from: HostTable): Unit = {
    var host = 0
    while (host < from.size) {
      raise(add(from, host), from.time(host), from.future(host))
      host += 1
    }
  }

  def copy(): HostTable = {
    val same = new HostTable
    same.raiseAll(this)
    same
  }

  /** Writes a host's entry: see [[HostEntries]]. */
  private[watermark] def write(host: Int, out: DataOutputStream): Unit =
    HostEntries.write(out, names, start(host), length(host), times(host), futures(host))

  /** The bytes of that. */
  private[watermark] def entryLength(host: Int): Int = HostEntries.FixedLength + length(host)

  /** The slot of a name's host, or the free one where it would be. */
  private def slotOf(bytes: Array[Byte], at: Int, size: Int): Int = {
    var slot = spread(bytes, at, size) & (slots.length - 1)
    while (slots(slot) >= 0 && !isNamed(slots(slot), bytes, at, size)) slot = (slot + 1) & (slots.length - 1)
    slot
  }

  private def isNamed(host: Int, bytes: Array[Byte], at: Int, size: Int): Boolean = {
    val from = start(host)
    Arrays.equals(names, from, ends(host), bytes, at, at + size)
  }

  private def grow(): Unit = {
    val capacity = ends.length * 2
    ends = Arrays.copyOf(ends, capacity)
    times = Arrays.copyOf(times, capacity)
    futures = Arrays.copyOf(futures, capacity)
    slots = emptySlots(capacity)
    var host = 0
    while (host < used) {
      slots(slotOf(names, start(host), length(host))) = host
      host += 1
    }
  }
}

object HostTable {

  /** Names of hosts differ in their last characters. This spreads the difference over all bits. */
  private def spread(bytes: Array[Byte], at: Int, size: Int): Int = {
    var hash = 0
    var i = at
    while (i < at + size) {
      hash = 31 * hash + bytes(i)
      i += 1
    }
    val mixed = hash * 0x9e3779b9
    mixed ^ (mixed >>> 16)
  }

  private def longer(length: Int): Int = if (length > Int.MaxValue / 2) Int.MaxValue - 8 else length * 2

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

  /** Bytes of an entry without its name. */
  val FixedLength = 20

  def write(out: DataOutputStream, table: HostTable, hosts: Array[Int]): Unit = {
    out.writeInt(hosts.length)
    hosts.foreach(table.write(_, out))
  }

  /** The bytes of that. */
  def length(table: HostTable, hosts: Array[Int]): Int =
    hosts.foldLeft(4)((sum, host) => Math.addExact(sum, table.entryLength(host)))

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

  /** @throws java.nio.BufferUnderflowException if the bytes end too soon, or a length is invalid */
  def read(in: ByteBuffer, into: HostTable): Unit =
    each(in, into)(into.raise(_, _, _))

  /** Reads entries, of an array. `entry` is given the host's number in a table, to which it is added, the time
    * and the rows ahead of the clock of each.
    */
  def each(in: ByteBuffer, into: HostTable)(entry: (Int, Long, Long) => Unit): Unit =
    (0 until in.getInt()).foreach { _ =>
      val length = CheckedBytes.readCount(in)
      val at = in.position()
      in.position(at + length)
      entry(into.add(in.array, in.arrayOffset + at, length), in.getLong(), in.getLong())
    }
}
