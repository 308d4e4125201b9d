package io.tailrace.label

/** `Grouped`: a row per left row, when its window has closed. `Pairs`: a row per pair, as soon as both are there. */
sealed abstract class JoinOutput(val name: String)

object JoinOutput {
  case object Grouped extends JoinOutput("left")
  case object Pairs extends JoinOutput("inner")

  val values: Seq[JoinOutput] = Seq(Grouped, Pairs)
}

/** What a join was asked for, columns apart.
  *
  * @param maxMatches a cap on the group of a left row, which then carries a flag
  * @param emitLate   rows behind the watermark come out, marked, instead of being counted only
  * @param strategy   when matches are looked for; a stream's planner decides it
  */
final case class JoinSettings(
    window: JoinWindow,
    output: JoinOutput,
    policy: MatchPolicy,
    maxMatches: Option[Int],
    emitLate: Boolean,
    strategy: MatchStrategy = MatchStrategy.Lazy
) {
  def isGrouped: Boolean = output == JoinOutput.Grouped

  /** For `explain`: what was asked for, by the names of the arguments. */
  def text: String = {
    val cap = maxMatches.fold("")(n => s", max_matches=$n")
    s"how=${output.name}, before=${JoinSettings.duration(window.before)}, after=${JoinSettings
        .duration(window.after)}, match=${policy.name}$cap, late=${if (emitLate) "emit" else "drop"}"
  }

  /** What a group can hold, and a pair: all. */
  def bound: MatchBound = if (isGrouped) MatchBound.of(this) else MatchBound.None
}

object JoinSettings {
  val LateColumn = "_late"

  private val Units = Seq(
    "d" -> 86400L * 1000 * 1000,
    "h" -> 3600L * 1000 * 1000,
    "min" -> 60L * 1000 * 1000,
    "s" -> 1000L * 1000,
    "ms" -> 1000L,
    "us" -> 1L
  )

  /** Microseconds as people write them: 1 h 30 min. */
  private[label] def duration(micros: Long): String = {
    val (_, parts) = Units.foldLeft((micros, Vector.empty[String])) { case ((rest, parts), (unit, length)) =>
      (rest % length, if (rest < length) parts else parts :+ s"${rest / length} $unit")
    }
    if (parts.isEmpty) "0 s" else parts.mkString(" ")
  }

  def truncatedColumn(into: String): String = s"${into}_truncated"
}
