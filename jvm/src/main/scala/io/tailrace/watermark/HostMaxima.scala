package io.tailrace.watermark

import java.io.DataOutputStream
import java.util.Arrays

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.checkpoint.ExactBytes
import io.tailrace.driver.SparkWatermark

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

  /** The number of rows behind the watermark. */
  var late = 0L

  /** The least completeness of a stamp, in its units. */
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
