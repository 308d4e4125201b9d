package io.tailrace.recursion

/** What the user said about a recursion, checked.
  *
  * @param name     of the recursion in the checkpoint and in the progress
  * @param maxDepth hops after which no row may come out; none: as many as it takes, up to [[RecursionSettings.Guard]]
  * @param maxRows  rows that a task may give in a micro-batch; none: as many as there are
  */
final case class RecursionSettings(
    name: String,
    maxDepth: Option[Int] = None,
    maxRows: Option[Long] = None,
    onLimit: OnLimit = OnLimit.Error,
    onCycle: OnCycle = OnCycle.Error
)

object RecursionSettings {

  /** Hops after which a recursion without `max_depth` is taken for one that doesn't end. */
  val Guard = 100000
}

/** What is done about rows beyond a limit. */
sealed abstract class OnLimit(val name: String)

object OnLimit {
  case object Error extends OnLimit("error")

  /** What there is comes out, and nothing of it goes round again. */
  case object Stop extends OnLimit("stop")

  val values: Seq[OnLimit] = Seq(Error, Stop)
}

/** What is done about a row with a key that it has had before. */
sealed abstract class OnCycle(val name: String)

object OnCycle {
  case object Error extends OnCycle("error")

  /** The row that closes the cycle is left out. */
  case object Stop extends OnCycle("stop")

  /** The row that closes the cycle comes out, marked, and doesn't go round. */
  case object Divert extends OnCycle("divert")

  val values: Seq[OnCycle] = Seq(Error, Stop, Divert)
}

/** How rows go round: chosen from the plan of op. */
sealed abstract class RecursionMode(val name: String)

object RecursionMode {

  /** All hops inside the micro-batch that brought the row. */
  case object Fixpoint extends RecursionMode("fixpoint")

  /** A hop a micro-batch, over a log in the checkpoint. */
  case object Feedback extends RecursionMode("feedback")

  val values: Seq[RecursionMode] = Seq(Fixpoint, Feedback)
}
