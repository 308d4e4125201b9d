package io.tailrace.common

/** A value of a closed set, by the name under which users write it. */
trait Choice {
  def name: String
}

/** The values of all options `on_<event>`, which decide about rows that aren't ordinary ones. */
sealed abstract class Policy(val name: String) extends Choice

object Policy {

  /** The row is left out, and counted. */
  case object Drop extends Policy("drop")

  /** The row is emitted with the reason in its column `_mark`. */
  case object Mark extends Policy("mark")

  /** The row is emitted as an ordinary one. */
  case object Emit extends Policy("emit")

  /** The query ends with an error that names the row, the partition or the limit. */
  case object Fail extends Policy("fail")

  /** The query waits. */
  case object Pause extends Policy("pause")

  /** A partition doesn't count until it is back. */
  case object Exclude extends Policy("exclude")

  /** An event time counts as if it were at the limit. */
  case object Clamp extends Policy("clamp")

  val onLate: Seq[Policy] = Seq(Drop, Mark)
  val onReplay: Seq[Policy] = Seq(Drop, Mark)
  val onDuplicate: Seq[Policy] = Seq(Emit, Drop, Mark)
  val onUnmatchedRight: Seq[Policy] = Seq(Drop, Emit)
  val onFuture: Seq[Policy] = Seq(Clamp, Mark, Fail)
  val onStall: Seq[Policy] = Seq(Pause, Exclude, Fail)
  val onLimit: Seq[Policy] = Seq(Fail, Drop)
  val onCycle: Seq[Policy] = Seq(Fail, Drop, Mark)

  /** The option that [[Mark]] and [[Fail]] of future rows need. */
  private[tailrace] val FutureLimit = "future_limit, for instance future_limit='1 hour'"

  /** The last event time that is believed in a batch, in microseconds.
    *
    * @param limitMicros ahead of the batch's clock; none: any time is believed
    */
  private[tailrace] def believedThrough(limitMicros: Option[Long], clockMs: Long): Long =
    limitMicros.fold(Long.MaxValue)(Math.addExact(Math.multiplyExact(clockMs, 1000L), _))
}
