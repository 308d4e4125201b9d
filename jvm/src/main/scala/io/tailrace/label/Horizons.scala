package io.tailrace.label

import io.tailrace.common.{Choice, Durations}

/** Which versions of a left row are emitted. */
sealed abstract class Emit(val name: String) extends Choice {

  /** True if a version is emitted that isn't the first one.
    *
    * @param change from the version before
    */
  def comesOut(isFinal: Boolean, change: GroupChange): Boolean
}

object Emit {

  /** One version at each horizon. */
  case object All extends Emit("all") {
    override def comesOut(isFinal: Boolean, change: GroupChange): Boolean = true
  }

  /** The first one and the final one, and those between whose group has changed. */
  case object Changes extends Emit("changes") {
    override def comesOut(isFinal: Boolean, change: GroupChange): Boolean =
      isFinal || change.isChanged
  }

  /** The first one, and then the one that has a match when those before it had none. */
  case object LatePositives extends Emit("late_positives") {
    override def comesOut(isFinal: Boolean, change: GroupChange): Boolean =
      change.hasGained
  }

  /** The first one and the final one. */
  case object Defer extends Emit("defer") {
    override def comesOut(isFinal: Boolean, change: GroupChange): Boolean = true
  }

  val values: Seq[Emit] = Seq(All, Changes, LatePositives, Defer)
}

/** When versions of a left row come out: at its time plus each of these, with the matches up to there that had come.
  *
  * {{{
  *   horizons 10 min, 1 h     left row 12:00     labels 12:04, 12:30, and 12:06 that comes when the watermark is 12:40
  *
  *   watermark 12:10     [12:04]                   final = false
  *   watermark 13:00     [12:04, 12:06, 12:30]     final = true, changed = true
  * }}}
  *
  * @param ends microseconds, ascending; the last one is the window's `after`
  */
final case class Horizons(ends: Seq[Long], emit: Emit) {

  /** In a checkpoint. */
  def text: String = ends.map(end => s"$end microseconds").mkString(", ")

  def words: Seq[String] = ends.map(Durations.words)

  /** Of each version, the horizon of the one before. */
  def earlier(horizon: Int): Option[Long] = Option.when(horizon > 0)(ends(horizon - 1))

  def isFinal(horizon: Int): Boolean = horizon == ends.size - 1

  /** Left rows up to this time have had their version of a horizon that isn't the final one. Such versions come in steps
    * that are as long as those of [[ReleaseSteps]] at the most, and short enough that a later horizon isn't before an
    * earlier one. They follow from the watermark alone: a number of partitions that changes between two micro-batches
    * must neither leave a version out nor repeat one.
    */
  def through(horizon: Int, watermark: Long, before: Long, release: ReleaseSteps): Long = {
    val window = JoinWindow(before, ends(horizon))
    val closed = window.leftExpiry(watermark)
    val every = Seq(release.every, ReleaseSteps.default(window).every, ends(horizon + 1) - ends(horizon)).min
    if (every == 0 || closed <= Long.MinValue + every) closed else Math.floorDiv(closed, every) * every
  }
}

object Horizons {

  /** The columns that a version has behind the group. */
  val Horizon = "horizon"
  val Final = "final"
  val Changed = "changed"
}

/** One way through the left rows of a partition, for one horizon.
  *
  * @param from,through the left rows after `from`, up to `through`
  * @param to           the horizon, microseconds
  */
private[label] final case class Pass(horizon: Int, from: Long, through: Long, to: Long, isFinal: Boolean)
