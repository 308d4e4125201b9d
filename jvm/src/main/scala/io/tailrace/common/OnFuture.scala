package io.tailrace.common

/** What is done about a row whose event time is ahead of the clock by more than the limit. */
sealed abstract class OnFuture(val name: String)

object OnFuture {

  /** It counts as if it were just as far ahead as the limit. */
  case object Clamp extends OnFuture("clamp")

  /** It doesn't count, and comes out marked. */
  case object Divert extends OnFuture("divert")

  /** The query fails. */
  case object Fail extends OnFuture("fail")

  val values: Seq[OnFuture] = Seq(Clamp, Divert, Fail)

  /** The last event time that is believed in a batch, in microseconds.
    *
    * @param limitMicros ahead of the batch's clock; none: as far as it is
    */
  private[tailrace] def believedThrough(limitMicros: Option[Long], clockMs: Long): Long =
    limitMicros.fold(Long.MaxValue)(Math.addExact(Math.multiplyExact(clockMs, 1000L), _))
}
