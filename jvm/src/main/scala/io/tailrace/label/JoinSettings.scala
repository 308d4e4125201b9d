package io.tailrace.label

import io.tailrace.common.{Choice, Durations}

/** `Grouped`: a row per left row, when its window has closed. `Pairs`: a row per pair, as soon as both are there. */
sealed abstract class JoinOutput(val name: String, synonyms: String*) extends Choice {

  /** What Spark's own join calls it, too. */
  def names: Seq[String] = name +: synonyms
}

object JoinOutput {
  case object Grouped extends JoinOutput("left", "leftouter", "left_outer")
  case object Pairs extends JoinOutput("inner")

  val values: Seq[JoinOutput] = Seq(Grouped, Pairs)
}

/** What a join was asked for, columns apart.
  *
  * @param maxMatches a cap on the group of a left row, which then carries a flag
  * @param marksLate  rows behind the watermark come out, marked, instead of being counted only
  * @param strategy   when matches are looked for; a stream's planner decides it
  */
final case class JoinSettings(
    window: JoinWindow,
    output: JoinOutput,
    policy: MatchPolicy,
    maxMatches: Option[Int],
    marksLate: Boolean,
    strategy: MatchStrategy = MatchStrategy.Lazy
) {
  def isGrouped: Boolean = output == JoinOutput.Grouped

  /** For `explain`: what was asked for, by the names of the arguments. */
  def text: String = {
    val cap = maxMatches.fold("")(n => s", max_matches=$n")
    s"how=${output.name}, before=${Durations.text(window.before)}, after=${Durations.text(
        window.after
      )}, match=${policy.name}$cap, on_late=${if (marksLate) "mark" else "drop"}"
  }

  /** What a group can hold, and a pair: all. */
  def bound: MatchBound = if (isGrouped) MatchBound.of(this) else MatchBound.None
}

object JoinSettings {
  def truncatedColumn(into: String): String = s"${into}_truncated"
}

/** When the matches of a row are looked for. What comes out is the same; what is kept and written is not.
  *
  * {{{
  *             written                                  right rows are kept until
  *   lazy      each row once                            watermark - after - before
  *   eager     left rows, an index of their keys,       watermark - before
  *             right rows, and each match once
  * }}}
  *
  * @param name  what the configuration and the checkpoint call it
  * @param moment what `explain` calls it
  */
sealed abstract class MatchStrategy(val name: String, val moment: String)

object MatchStrategy {

  /** When the left row expires: one merge of what expires with what it may match. */
  case object Lazy extends MatchStrategy("lazy", "at expiry")

  /** When the later of the two rows arrives. */
  case object Eager extends MatchStrategy("eager", "on arrival")

  val values: Seq[MatchStrategy] = Seq(Lazy, Eager)
}
