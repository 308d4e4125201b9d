package io.tailrace.watermark

import java.io.DataOutputStream
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Arrays, BitSet, PriorityQueue}

import scala.collection.mutable

import io.tailrace.checkpoint.CheckedBytes
import io.tailrace.common.SparkWatermark
import io.tailrace.driver.{Heard, IdleClock}

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

/** The low watermark of one source: all hosts but the share that may lag have been read up to it.
  *
  * {{{
  *   completeness 75 %: one of four hosts may lag
  *   a 12:07   b 12:05   c 12:09   d 11:00   ->   12:05, the second smallest
  *   a 12:07   b 12:05   c 12:09   d -       ->   12:05: a host of the roster that was never seen lags
  *   a 12:07   b 12:05   c -       d -       ->   it stays where it is
  * }}}
  *
  * It never goes back. Times are microseconds.
  *
  * @param roster      the hosts that count; none: all that have been seen
  * @param idleAfterMs a host that has been idle for this time, in milliseconds ([[IdleClock]]), doesn't count
  *                    until it has rows again
  */
final class SourceProgress(
    completeness: Completeness,
    roster: Option[Seq[String]],
    idleAfterMs: Option[Long]
) {
  private var hosts = new HostTable
  roster.foreach(_.foreach(hosts.add))

  def table: HostTable = hosts

  // The hosts of the roster have the first numbers.
  private val rosterSize = hosts.size
  private val rostered = if (roster.isEmpty) Int.MaxValue else rosterSize
  private var forgottenFuture = 0L
  private val outsiders = mutable.HashSet.empty[String]

  private val idleClock = idleAfterMs.map(new IdleClock(_))
  private var marks = new Array[Long](0)
  private var idle = new Array[Boolean](0)
  private var lowWatermark = SparkWatermark.Never

  /** [[SparkWatermark.Never]] until enough hosts have been seen. */
  def low: Long = lowWatermark

  /** Takes a low watermark if it is later: that of the hosts, of an earlier run or of a watermark server. */
  def restore(low: Long): Unit = lowWatermark = Math.max(lowWatermark, low)

  /** The hosts of the roster, or all. */
  private def listed: Range = 0 until Math.min(table.size, rostered)

  /** Adds the observations of a batch's tasks.
    *
    * @param moving whether the low watermark moves. It doesn't if a server decides on it
    */
  def advance(seen: HostTable, input: BatchInput, moving: Boolean = true): Advance = {
    track()
    val moved = new BitSet
    val heard = new BitSet
    val outside = Seq.newBuilder[String]
    (0 until seen.size).foreach { i =>
      val host = table.add(seen, i)
      track()
      if (table.raise(host, seen.time(i)) || seen.future(i) > 0) moved.set(host)
      table.addFuture(host, seen.future(i))
      heard.set(host)
      if (isOutside(host) && outsiders.size < SourceProgress.MostOutsiders && outsiders.add(seen.name(i)))
        outside += seen.name(i)
    }
    val (stopped, back) = judgeIdle(heard, input)
    if (moving) restore(computed)
    Advance(moved.stream.toArray, stopped.map(table.name), back.map(table.name), outside.result())
  }

  /** True if a roster leaves out a host of which there are rows. */
  private def isOutside(host: Int): Boolean = host >= rostered && table.time(host) != SparkWatermark.Never

  /** Makes room for new hosts in the arrays beside the table. */
  private def track(): Unit = {
    val known = marks.length
    if (table.size > known) {
      val capacity = Math.max(table.size, known * 2)
      marks = Arrays.copyOf(marks, capacity)
      Arrays.fill(marks, known, capacity, idleClock.fold(0L)(_.nowMs))
      idle = Arrays.copyOf(idle, capacity)
    }
  }

  private def judgeIdle(heard: BitSet, input: BatchInput): (Seq[Int], Seq[Int]) = idleClock match {
    case None => (Nil, Nil)
    case Some(rule) =>
      val passed = rule.advance(input.askedMs, input.hasNew)
      // Unread rows may be of any host.
      val unheard = if (input.hasUnread) Heard.Unknown else Heard.No
      val changed = listed.filter { host =>
        marks(host) = rule.mark(marks(host), passed, if (heard.get(host)) Heard.Yes else unheard)
        val isIdle = rule.isTooLong(marks(host))
        val changes = isIdle != idle(host)
        idle(host) = isIdle
        changes
      }
      changed.partition(idle(_))
  }

  /** The low watermark of the hosts' times alone, which may be before [[low]]. */
  def computed: Long = {
    val times = countedTimes
    if (times.length == 0) SparkWatermark.Never else Smallest.at(times, completeness.allowed(times.length))
  }

  private def countedTimes: Array[Long] = {
    val times = new Array[Long](listed.size)
    var count = 0
    listed.foreach { host =>
      if (!idle(host)) {
        times(count) = table.time(host)
        count += 1
      }
    }
    Arrays.copyOf(times, count)
  }

  /** Rows ahead of the clock of hosts that have been forgotten. */
  def futureOfForgotten: Long = forgottenFuture
  def restoreFuture(rows: Long): Unit = forgottenFuture = Math.max(forgottenFuture, rows)

  /** Forgets hosts that are not in the roster, that the watermark doesn't wait for and that are a week behind
    * it. Otherwise hosts with names of pods would fill the table. A host that comes back counts as a new one.
    *
    * This rebuilds the table, so it waits until an eighth of the hosts can go.
    *
    * @param all whether a server decides which hosts are waited for. It keeps its own table
    * @return the new number of each host, -1 for forgotten ones; none: nothing has changed
    */
  def forget(all: Boolean): Option[Array[Int]] = {
    track()
    val before = Math.max(low, SparkWatermark.Never + SourceProgress.GoneAfter) - SourceProgress.GoneAfter
    val gone = (rosterSize until table.size).filter { host =>
      table.time(host) < before && (all || host >= rostered || idle(host))
    }
    Option.when(gone.nonEmpty && gone.size >= table.size / 8) {
      forgottenFuture += gone.map(table.future).sum
      val isGone = new BitSet
      gone.foreach(isGone.set)
      val (old, oldMarks, oldIdle) = (hosts, marks, idle)
      hosts = new HostTable
      marks = new Array[Long](old.size)
      idle = new Array[Boolean](old.size)
      Array.tabulate(old.size) { host =>
        if (isGone.get(host)) -1
        else {
          val number = hosts.add(old, host)
          hosts.raise(number, old.time(host), old.future(host))
          marks(number) = oldMarks(host)
          idle(number) = oldIdle(host)
          number
        }
      }
    }
  }

  private def named(hosts: Seq[Int]): Seq[(String, Long)] =
    hosts.map(host => table.name(host) -> table.time(host))

  /** The numbers of the hosts that count. */
  def counted: Seq[Int] = {
    track()
    listed.filterNot(idle(_))
  }

  /** The number of hosts, with idle ones, and those that are before a time, with their times. */
  def behind(through: Long): (Int, Seq[(String, Long)]) =
    (listed.size, named(listed.filter(table.time(_) < through)))

  /** @param slowest how many of the hosts furthest behind are named */
  def report(slowest: Int): ProgressReport = {
    track()
    // Without lists of hosts: there may be a million.
    var expected, passed = 0
    val behind = new PriorityQueue[Int](Ordering.by((h: Int) => table.time(h)).reverse)
    listed.foreach { host =>
      if (!idle(host)) {
        expected += 1
        if (low != SparkWatermark.Never && table.time(host) >= low) passed += 1
        if (behind.size < slowest || table.time(host) < table.time(behind.peek())) behind.add(host)
        if (behind.size > slowest) behind.poll()
      }
    }
    ProgressReport(
      expected = expected,
      passed = passed,
      idle = listed.size - expected,
      unrostered = (rostered until table.size).count(isOutside),
      future = forgottenFuture + Iterator.range(0, table.size).map(table.future).sum,
      slowest = named(Seq.fill(behind.size)(behind.poll()).reverse)
    )
  }
}

object SourceProgress {

  /** A host this far behind can be forgotten, in microseconds. The server's limit is the same. */
  val GoneAfter: Long = 7L * 24 * 3600 * 1000000

  // Hosts with names of pods must not fill the memory.
  private val MostOutsiders = 10000
}

/** The input of a batch.
  *
  * @param askedMs   when Spark asked the sources for it, by a clock that doesn't jump
  * @param hasNew    whether any source had new rows
  * @param hasUnread whether this source has rows that the batch doesn't read
  */
final case class BatchInput(askedMs: Long, hasNew: Boolean, hasUnread: Boolean)

/** The changes of a batch.
  *
  * @param moved  numbers of the hosts whose entry has changed
  * @param idle   names of the hosts that have stopped counting
  * @param back   names of the hosts that count again
  * @param outside names of hosts that the roster leaves out, and whose first rows of the run these are
  */
final case class Advance(
    moved: Array[Int],
    idle: Seq[String],
    back: Seq[String],
    outside: Seq[String] = Nil
)

/** The numbers of a source, for the query's progress.
  *
  * @param expected hosts that count
  * @param passed   those of them that have reached the low watermark
  * @param idle     hosts that don't count, because they are idle
  * @param unrostered hosts that don't count, because the roster leaves them out
  * @param future   rows that were ahead of the clock
  * @param slowest  the hosts furthest behind and their times, the slowest first
  */
final case class ProgressReport(
    expected: Int,
    passed: Int,
    idle: Int,
    unrostered: Int,
    future: Long,
    slowest: Seq[(String, Long)]
)

/** Finds the k-th smallest of many numbers without sorting them all. */
object Smallest {

  /** @param values are reordered
    * @param rank   0 for the smallest
    */
  def at(values: Array[Long], rank: Int): Long = {
    require(rank >= 0 && rank < values.length, s"$rank of ${values.length}")
    var from = 0
    var to = values.length - 1
    while (from < to) {
      val pivot = middle(values(from), values((from + to) >>> 1), values(to))
      var low = from
      var high = to
      while (low <= high) {
        while (values(low) < pivot) low += 1
        while (values(high) > pivot) high -= 1
        if (low <= high) {
          val other = values(low)
          values(low) = values(high)
          values(high) = other
          low += 1
          high -= 1
        }
      }
      if (rank <= high) to = high
      else if (rank >= low) from = low
      else return values(rank)
    }
    values(rank)
  }

  private def middle(a: Long, b: Long, c: Long): Long =
    Math.max(Math.min(a, b), Math.min(Math.max(a, b), c))
}
