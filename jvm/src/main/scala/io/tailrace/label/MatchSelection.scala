package io.tailrace.label

import io.tailrace.common.RowMemoryExhausted

/** Right rows that come one after the other, from wherever they are. */
private[label] trait KeyedRows {
  def isEmpty: Boolean

  /** Of the row that comes next. */
  def time: Long
  def addTo(candidates: Candidates): Unit
  def advance(): Unit
}

/** Gathers rows that come in any order, and keeps of them what a group can hold: a policy that chooses one row needs no
  * room for all that it chooses from.
  *
  * @param makeRoom gives back memory of candidates that nobody needs any more
  */
private[label] final class MatchSelection(
    bound: MatchBound,
    candidates: Candidates,
    makeRoom: () => Unit = () => ()
) {
  private val enough =
    if (bound.most > Int.MaxValue / 4) Int.MaxValue else MatchSelection.Few + 2 * bound.most
  // Of the candidates, the last so many are being gathered.
  private var held = 0

  /** Puts what it keeps behind the other candidates, in order.
    *
    * @param ofOneTime whether to stop behind the rows of the next row's time
    * @return how many rows it has seen
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

private[label] object MatchSelection {

  /** Rows that are gathered before it is worth to see which of them are wanted. */
  private val Few = 1024
}
