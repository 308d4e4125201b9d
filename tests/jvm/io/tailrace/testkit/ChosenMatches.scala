package io.tailrace.testkit

/** The order of right rows, and which of them a group has. Oracles share it; it shares nothing with the engine. */
private[testkit] object ChosenMatches {

  /** The rows of a group, and whether the cap has left some out. */
  type Group = (Seq[Engaged], Boolean)

  /** By time, then by the bytes of the row, in which a number stands with its lowest byte first. */
  def goesBefore(a: Engaged, b: Engaged): Boolean =
    if (a.rt != b.rt) a.rt.before(b.rt) else idGoesBefore(a.rid, b.rid)

  def idGoesBefore(a: Int, b: Int): Boolean =
    Integer.compareUnsigned(Integer.reverseBytes(a), Integer.reverseBytes(b)) < 0

  /** @param found all matches of the left row */
  def of(left: Served, found: Seq[Engaged], matching: String, maxMatches: Option[Int]): Group = {
    val inOrder = found.sortWith(goesBefore)
    val chosen = matching match {
      case "all" => inOrder
      case "first" => inOrder.take(1)
      case "last" => inOrder.takeRight(1)
      case "nearest" =>
        inOrder.sortBy(r => Math.abs(Times.microsOf(r.rt) - Times.microsOf(left.t))).take(1)
    }
    val kept = maxMatches.fold(chosen)(chosen.take)
    (kept, kept.size < chosen.size)
  }
}
