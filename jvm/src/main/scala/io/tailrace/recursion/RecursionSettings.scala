package io.tailrace.recursion

import io.tailrace.common.{Choice, Policy}

/** The checked options of a recursion.
  *
  * @param name     of the recursion in the checkpoint and in the progress
  * @param maxDepth hops after which no row may come out; none: as many as it takes, up to [[RecursionSettings.Guard]]
  * @param maxRows  rows that a task may give in a micro-batch; none: as many as there are
  * @param onLimit  what is done about rows beyond a limit; dropped: what there is comes out and doesn't go round again
  * @param onCycle  what is done about a row with a key that it has had before; marked: it comes out and doesn't go round
  */
final case class RecursionSettings(
    name: String,
    maxDepth: Option[Int] = None,
    maxRows: Option[Long] = None,
    onLimit: Policy = Policy.Fail,
    onCycle: Policy = Policy.Fail
)

object RecursionSettings {

  /** Hops after which a recursion without `max_depth` is taken for one that doesn't end. */
  val Guard = 100000
}

/** How rows go round: chosen from the plan of op. */
sealed abstract class RecursionMode(val name: String) extends Choice

object RecursionMode {

  /** All hops inside the micro-batch that brought the row. */
  case object Fixpoint extends RecursionMode("fixpoint")

  /** A hop a micro-batch, over a log in the checkpoint. */
  case object Feedback extends RecursionMode("feedback")

  val values: Seq[RecursionMode] = Seq(Fixpoint, Feedback)
}
