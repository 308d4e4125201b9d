package io.tailrace.examples

import java.util.Arrays

/** The impressions of a key that may share an event, in order: by time, and by a hash of their content where times are
  * equal. Each impression leaves a touch among the rows of labels: its time and that hash ([[ImpressionHash]]).
  * Impressions that are equal in both are touches of their own, one behind the other.
  *
  * Add touches in the order of time, `settle`, then read. Touches that are added later are behind the others.
  */
private[examples] final class Touches {
  private var at = new Array[Long](4)
  private var hashes = new Array[Long](4)
  private var count = 0
  private var settled = 0

  def size: Int = count

  def clear(): Unit = {
    count = 0
    settled = 0
  }

  def add(time: Long, hash: Long): Unit = {
    if (count == at.length) {
      at = Arrays.copyOf(at, 2 * count)
      hashes = Arrays.copyOf(hashes, 2 * count)
    }
    at(count) = time
    hashes(count) = hash
    count += 1
  }

  /** Puts those in order that were added since the last time. All touches of their times must be there. */
  def settle(): Unit = {
    var from = settled
    while (from < count) {
      var until = from + 1
      while (until < count && at(until) == at(from)) until += 1
      if (until - from > 1) Arrays.sort(hashes, from, until)
      from = until
    }
    settled = count
  }

  /** Removes the first ones. Those that are left are numbered from 0. */
  def dropFirst(touches: Int): Unit = {
    count -= touches
    settled -= touches
    System.arraycopy(at, touches, at, 0, count)
    System.arraycopy(hashes, touches, hashes, 0, count)
  }

  /** The number of a touch; -1 if it isn't there.
    *
    * @param twin how many impressions that are equal to this one come before it
    */
  def place(time: Long, hash: Long, twin: Int): Int = {
    val (from, until) = (countBefore(time), countThrough(time))
    var low = from
    var high = until
    while (low < high) {
      val middle = (low + high) >>> 1
      if (hashes(middle) < hash) low = middle + 1 else high = middle
    }
    if (twin < until - low && hashes(low + twin) == hash) low + twin else -1
  }

  /** The number of touches that are before a time. */
  def countBefore(time: Long): Int = if (time == Long.MinValue) 0 else countThrough(time - 1)

  /** The number of touches that aren't after a time. */
  def countThrough(time: Long): Int = SortedTimes.countThrough(at, 0, count, time)

  def time(place: Int): Long = at(place)
}

/** Times in ascending order. */
private[examples] object SortedTimes {

  /** Of those from place `from` on, before `until`: the place of the first one after a time. */
  def countThrough(times: Array[Long], from: Int, until: Int, last: Long): Int = {
    var low = from
    var high = until
    while (low < high) {
      val middle = (low + high) >>> 1
      if (times(middle) <= last) low = middle + 1 else high = middle
    }
    low
  }
}
