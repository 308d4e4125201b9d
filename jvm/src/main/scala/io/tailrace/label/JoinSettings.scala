package io.tailrace.label

import io.tailrace.common.{Choice, Durations}

/** `Grouped`: one row per left row, when its window has closed. `Pairs`: one row per pair, as soon as both rows are there. */
sealed abstract class JoinOutput(val name: String, synonyms: String*) extends Choice {

  /** The names that Spark's own join accepts. */
  def names: Seq[String] = name +: synonyms
}

object JoinOutput {
  case object Grouped extends JoinOutput("left", "leftouter", "left_outer")
  case object Pairs extends JoinOutput("inner")

  val values: Seq[JoinOutput] = Seq(Grouped, Pairs)
}

/** The settings of a join, without its columns.
  *
  * @param maxMatches a cap on the group of a left row, which then carries a flag
  * @param marksLate  late rows come out, marked; else they are only counted
  * @param strategy   when matches are looked for; the planner decides it for streams
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

  /** The settings in `explain`, by the names of the arguments. */
  def text: String = {
    val cap = maxMatches.fold("")(n => s", max_matches=$n")
    s"how=${output.name}, before=${Durations.text(window.before)}, after=${Durations.text(
        window.after
      )}, match=${policy.name}$cap, on_late=${if (marksLate) "mark" else "drop"}"
  }

  /** The most that comes out for one left row. Of pairs all come out. */
  def bound: MatchBound = if (isGrouped) MatchBound.of(this) else MatchBound.None
}

object JoinSettings {
  def truncatedColumn(into: String): String = s"${into}_truncated"
}

/** When the matches of a row are looked for. The result is the same. The rows that are written and kept are not.
  *
  * {{{
  *             written                                  right rows are kept until
  *   lazy      each row once                            watermark - after - before
  *   eager     left rows, an index of their keys,       watermark - before
  *             right rows, and each match once
  * }}}
  *
  * @param name   in the configuration and in the checkpoint
  * @param moment in `explain`
  */
sealed abstract class MatchStrategy(val name: String, val moment: String)

object MatchStrategy {

  /** When the left row expires: one merge of the rows that expire with the right rows of their windows. */
  case object Lazy extends MatchStrategy("lazy", "at expiry")

  /** When the later of the two rows arrives. */
  case object Eager extends MatchStrategy("eager", "on arrival")

  val values: Seq[MatchStrategy] = Seq(Lazy, Eager)
}
