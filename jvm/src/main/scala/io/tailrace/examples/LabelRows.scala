package io.tailrace.examples

import java.util.Arrays

/** The events of one label and one key, and the touches of impressions that may share them. Values that all touches
  * of an event have in common are computed once, with the first of them.
  *
  * {{{
  *   impressions of user 1   12:00   12:10   12:30          orders at 12:40 and 12:50
  *   12:00 needs             the weights of three touches for each order: their sum, and the remainder for 12:30
  *   12:10, 12:30 need       one weight for each order
  * }}}
  *
  * Events are numbered from 0, in the order of time, and by content where times are equal.
  */
private[examples] final class LabelRows(rule: LabelRule) {
  import LabelRows._
  import rule.window

  val touches = new Touches
  private val shared = rule.attribution.collect { case one: Attribution.Shared => one }
  private var times = new Array[Long](4)
  private var rows = new Array[Long](4)
  private var count = 0

  // For each event in use: its first touch, the number of touches, and their common values.
  private var firsts = Array.emptyIntArray
  private var numbers = Array.emptyIntArray
  private var sums = Array.emptyDoubleArray
  private var lasts = Array.emptyLongArray

  def size: Int = count
  def isEmpty: Boolean = count == 0 && touches.size == 0

  def clear(): Unit = {
    count = 0
    touches.clear()
  }

  /** @param row the number of its row among the candidates, which it keeps */
  def add(time: Long, row: Long): Unit = {
    if (count == times.length) grow()
    times(count) = time
    rows(count) = row
    if (shared.nonEmpty) firsts(count) = Unknown
    count += 1
  }

  private def grow(): Unit = {
    times = Arrays.copyOf(times, 2 * count)
    rows = Arrays.copyOf(rows, 2 * count)
    if (shared.nonEmpty) growShares()
  }

  private def growShares(): Unit = {
    firsts = Arrays.copyOf(firsts, times.length)
    numbers = Arrays.copyOf(numbers, times.length)
    sums = Arrays.copyOf(sums, times.length)
    lasts = Arrays.copyOf(lasts, times.length)
  }

  if (shared.nonEmpty) growShares()

  def time(event: Int): Long = times(event)
  def row(event: Int): Long = rows(event)

  /** The number of the first event at or after a time. */
  def firstFrom(time: Long): Int =
    if (time == Long.MinValue) 0 else SortedTimes.countThrough(times, 0, count, time - 1)

  /** The number of the first event after a time, from one on. */
  def firstAfter(from: Int, time: Long): Int = SortedTimes.countThrough(times, from, count, time)

  /** Drops events before a time. Neither they nor events that such a touch shares are needed any longer. */
  def dropBefore(time: Long): Unit = {
    val events = firstFrom(time)
    val gone = touches.countBefore(time)
    if (gone > 0) touches.dropFirst(gone)
    count -= events
    System.arraycopy(times, events, times, 0, count)
    System.arraycopy(rows, events, rows, 0, count)
    if (shared.nonEmpty) {
      System.arraycopy(firsts, events, firsts, 0, count)
      System.arraycopy(numbers, events, numbers, 0, count)
      System.arraycopy(sums, events, sums, 0, count)
      System.arraycopy(lasts, events, lasts, 0, count)
      (0 until count).foreach(event => firsts(event) = Math.max(Unknown, firsts(event) - gone))
    }
  }

  /** The first event in a range, end exclusive, whose first touch is this one, or a later one. */
  def firstOfFirst(touch: Int, from: Int, until: Int): Int =
    if (touch == 0) from
    else search(from, until)(at => touches.time(touch - 1) < window.earliestLeft(at))

  /** The first event in a range, end exclusive, whose last touch is later than this one. */
  def firstBehindLast(touch: Int, from: Int, until: Int): Int =
    if (touch + 1 == touches.size) until
    else search(from, until)(at => touches.time(touch + 1) <= window.latestLeft(at))

  /** The first event for which a condition holds that holds for all later ones. */
  private def search(from: Int, until: Int)(holds: Long => Boolean): Int = {
    var low = from
    var high = until
    while (low < high) {
      val middle = (low + high) >>> 1
      if (holds(times(middle))) high = middle else low = middle + 1
    }
    low
  }

  /** The credit of one of the touches of an event, in billionths. */
  def share(of: Attribution.Shared, event: Int, touch: Int): Long = {
    val at = times(event)
    if (firsts(event) == Unknown) split(of, event)
    val first = firsts(event)
    def ago(touch: Int) = Math.abs(at - touches.time(first + touch))
    of.share(sums(event), lasts(event), numbers(event), touch - first, ago)
  }

  private def split(of: Attribution.Shared, event: Int): Unit = {
    val at = times(event)
    val first = touches.countBefore(window.earliestLeft(at))
    val n = touches.countThrough(window.latestLeft(at)) - first
    def ago(touch: Int) = Math.abs(at - touches.time(first + touch))
    val sum = of.sum(n, ago)
    firsts(event) = first
    numbers(event) = n
    sums(event) = sum
    lasts(event) = of.last(sum, n, ago)
  }
}

private object LabelRows {
  private val Unknown = -1
}

/** The impressions of a key that may share an event, in order: by time, and by a hash of their content where times are
  * equal. Each impression leaves a touch among the rows of labels: its time and that hash ([[ImpressionHash]]).
  * Impressions that are equal in both are separate touches, one after the other.
  *
  * Add touches in the order of time, `settle`, then read. Touches that are added later come after the others.
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

  /** Sorts the touches that were added since the last call. All touches of their times must have been added. */
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

  /** The place of the first one after a time, among those from place `from` (inclusive) to `until` (exclusive). */
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
