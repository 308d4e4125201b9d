package io.tailrace.label

import io.tailrace.common.RowMemoryExhausted

/** The right rows of a key that are in a left row's window, read as the window moves on. It holds one window
  * at a time, and of it no more than the policy can choose from. It is for keys that have more rows than
  * memory has room for.
  *
  * {{{
  *   right rows   12:00 12:01 12:02 12:03 12:04 ...
  *   left row at 12:01, window 10 min     all: up to 12:11     first: 12:01     max_matches = 2: 12:01 12:02
  *   left row at 12:03                    all: from 12:03 on   first: 12:03     max_matches = 2: 12:03 12:04
  * }}}
  *
  * Among rows of one time the content decides which is first and last, so all are read before it chooses.
  *
  * @param candidates gets the rows that a left row can choose from, in order
  */
private[label] final class MatchWindow(bound: MatchBound, candidates: Candidates) {
  import MatchPolicy._

  private var rows: KeyedRows = _
  // The number of candidates, from the first one on, that are before all windows to come.
  private var dead = 0
  private val selection = new MatchSelection(bound, candidates, () => dropDead())

  def start(of: KeyedRows): Unit = {
    rows = of
    candidates.clear()
    dead = 0
  }

  /** Moves on to the window of the next left row. Left rows come in the order of time. */
  def slideTo(leftTime: Long, lower: Long, upper: Long): Unit = {
    while (dead < candidates.size && candidates.time(dead) < lower) dead += 1
    if (dead > candidates.size / 2) dropDead()
    while (!rows.isEmpty && rows.time < lower) rows.advance()
    def isNext = !rows.isEmpty && rows.time <= upper
    bound.policy match {
      case All | First =>
        while (isNext && candidates.size - dead < bound.most) selection.take(rows, leftTime, ofOneTime = true)
      case Last =>
        while (isNext) {
          selection.take(rows, leftTime, ofOneTime = true)
          keepLast(1)
        }
      case Nearest =>
        while (isNext && (candidates.size == 0 || lastTime < leftTime)) {
          selection.take(rows, leftTime, ofOneTime = true)
          if (lastTime <= leftTime) keepLast(1)
        }
        // If a candidate isn't after the left row, no earlier one is nearest to it or to a later left row.
        while (candidates.size > 1 && candidates.time(1) <= leftTime) keepLast(candidates.size - 1)
    }
    candidates.slideTo(lower, upper)
  }

  private def lastTime: Long = candidates.time(candidates.size - 1)

  private def keepLast(count: Int): Unit = {
    candidates.dropFirst(candidates.size - count)
    dead = 0
  }

  private def dropDead(): Unit = {
    candidates.dropFirst(dead)
    dead = 0
  }
}

/** Right rows of one key, read one after the other, from memory or from files. */
private[label] trait KeyedRows {
  def isEmpty: Boolean

  /** The time of the next row. */
  def time: Long
  def addTo(candidates: Candidates): Unit
  def advance(): Unit
}

/** Gathers rows that come in any order, and keeps those that a group can hold. A policy that chooses one
  * row needs no room for all rows that it chooses from.
  *
  * @param makeRoom gives back memory of candidates that nobody needs any more
  */
private[label] final class MatchSelection(
    bound: MatchBound,
    candidates: Candidates,
    makeRoom: () => Unit = () => ()
) {
  // The number of rows to gather before it chooses among them.
  private val enough = if (bound.most > Int.MaxValue / 4) Int.MaxValue else 1024 + 2 * bound.most
  // The last so many candidates are being gathered.
  private var held = 0

  /** Puts the rows that it keeps behind the other candidates, in order.
    *
    * @param ofOneTime whether to take only the rows of the next row's time
    * @return how many rows it has read
    */
  def take(rows: KeyedRows, leftTime: Long, ofOneTime: Boolean): Int = {
    val time = if (ofOneTime) rows.time else 0L
    var seen = 0
    held = 0
    while (!rows.isEmpty && (!ofOneTime || rows.time == time)) {
      try rows.addTo(candidates)
      catch { case _: RowMemoryExhausted if hasRoom(leftTime) => rows.addTo(candidates) }
      held += 1
      seen += 1
      rows.advance()
      if (held >= enough) choose(leftTime)
    }
    choose(leftTime)
    seen
  }

  private def hasRoom(leftTime: Long): Boolean = {
    val before = candidates.size
    makeRoom()
    choose(leftTime)
    candidates.size < before
  }

  private def choose(leftTime: Long): Unit = {
    val from = candidates.size - held
    candidates.settleFrom(from)
    if (held > 1) held = bound.keep(candidates, from, held, leftTime)
  }
}
