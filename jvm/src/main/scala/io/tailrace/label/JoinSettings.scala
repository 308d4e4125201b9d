package io.tailrace.label

import io.tailrace.common.{Choice, Durations}
import io.tailrace.join.JoinColumns
import io.tailrace.state.RowMemory

/** `Grouped`: a row per left row, when its window has closed. `Pairs`: a row per pair, at once. */
sealed abstract class JoinOutput(val name: String, synonyms: String*) extends Choice {

  /** The names that Spark's own join accepts. */
  def names: Seq[String] = name +: synonyms
}

object JoinOutput {
  case object Grouped extends JoinOutput("left", "leftouter", "left_outer")
  case object Pairs extends JoinOutput("inner")

  val values: Seq[JoinOutput] = Seq(Grouped, Pairs)
}

/** The time at which left rows are emitted. */
sealed abstract class Release(val name: String) extends Choice

object Release {

  /** When their windows have closed. */
  case object Closed extends Release("closed")

  /** As soon as their groups can't change any more. */
  case object Decided extends Release("decided")

  val values: Seq[Release] = Seq(Closed, Decided)
}

/** The settings of a join, without its columns.
  *
  * @param form       the columns made of the matches of a left row
  * @param marksLate  late rows are emitted, marked; else they are only counted
  * @param strategy   when matches are looked for; the planner decides it for streams
  * @param release    when left rows of a stream are emitted after they have expired; none: as the checkpoint has
  *                   it, or the default of a new one
  * @param saltedKeys        the keys that are split, as text
  * @param alsoBound  more settings that a checkpoint is bound to
  * @param lateLabels whether right rows behind the watermark are taken as long as a left row may match them; none: as
  *                   the checkpoint has it, or that they are
  * @param lateImpressions whether left rows behind the watermark are taken as long as their window is open; none: where
  *                   that needs no further state
  * @param horizons   when versions of a left row are emitted; none: it is emitted once
  * @param oneToOne with pairs: see [[OneToOne]]
  * @param decided    whether a left row is emitted as soon as its first match is certain, not when its window closes
  * @param streams    that are watched: of examples, and of a join with a policy for those that stall
  * @param idleTimeoutMs after how much idle time of the query buffered rows are flushed; none: never before the watermark
  * @param orphans    right rows that no emitted left row has are emitted, marked
  * @param amendFor   how long after its window has closed a left row may be amended, microseconds; none: not at all
  * @param balance    of a stream of examples whose negatives are sampled at a ratio
  */
final case class JoinSettings(
    window: JoinWindow,
    output: JoinOutput,
    form: GroupForm,
    marksLate: Boolean,
    strategy: MatchStrategy = MatchStrategy.Lazy,
    release: Option[ReleaseSteps] = None,
    saltedKeys: Option[String] = None,
    alsoBound: Map[String, String] = Map.empty,
    lateLabels: Option[Boolean] = None,
    lateImpressions: Option[Boolean] = None,
    horizons: Option[Horizons] = None,
    oneToOne: Boolean = false,
    decided: Boolean = false,
    idleTimeoutMs: Option[Long] = None,
    streams: Option[LabelStreams] = None,
    amendFor: Option[Long] = None,
    balance: Option[NegativeBalance] = None,
    orphans: Boolean = false
) {
  def isGrouped: Boolean = output == JoinOutput.Grouped

  /** True if rows are emitted that aren't ordinary ones, and so a column says which. */
  def hasMarks: Boolean = marksLate || amendFor.nonEmpty || orphans || mayExclude

  /** True if late right rows are emitted. */
  def marksLateRights: Boolean = marksLate || orphans

  /** True if rows may be emitted without the rows of a stream that has stalled. */
  def mayExclude: Boolean = streams.exists(_.mayExclude)

  /** The columns after those of the form. */
  def version: VersionColumns = VersionColumns(horizons, hasMarks, balance.map(_.rate))

  def groupWriter(columns: JoinColumns, memory: RowMemory): GroupWriter =
    form.writer(columns, version, memory)

  /** A left row gets what comes until the watermark has reached its time plus this, in its row or amended. */
  def takesFor: Long = JoinWindow.saturatingAdd(window.after, amendFor.getOrElse(0L))

  /** True if pairs with late right rows are further behind the watermark than others. A checkpoint pins them then: the
    * watermark downstream mustn't go back, or rows that were evicted there could arrive again.
    */
  def lateLabelsWiden: Boolean = !isGrouped && window.before > 0

  /** True if a left row behind the watermark is taken as long as its window is open. Lazy matching keeps all right rows
    * of such a window for the left rows that are buffered. Other strategies have evicted some of them.
    */
  def takesLateLefts: Boolean =
    isGrouped && strategy == MatchStrategy.Lazy && lateImpressions.getOrElse(true)

  /** The window up to the first version. */
  def firstWindow: JoinWindow = horizons.fold(window)(h => window.copy(after = h.ends.head))

  /** Otherwise, when the left row expires. */
  def matchesOnArrival: Boolean = !isGrouped || strategy != MatchStrategy.Lazy

  /** The settings in `explain`, by the names of the arguments. */
  def text: String = {
    val onLate = if (marksLate) "mark" else "drop"
    val steps = release.fold("")(r => s", release_every=${Durations.text(r.every)}")
    val late = lateLabels.fold("")(taken => s", late_labels=$taken")
    val lateLefts = lateImpressions.fold("")(taken => s", late_impressions=$taken")
    val versions =
      horizons.fold("")(h => s", horizons=[${h.words.mkString(", ")}], emit=${h.emit.name}")
    val when = if (decided) s", release=${Release.Decided.name}" else ""
    val amends = amendFor.fold("")(time => s", amend_for=${Durations.text(time)}")
    val one = if (oneToOne) ", one_to_one=true" else ""
    val closing = idleTimeoutMs.fold("")(ms => s", idle_timeout=${Durations.text(ms * 1000)}")
    val keys = saltedKeys.fold("")(keys => s", salted_keys=[$keys]")
    val ratio = balance.fold("")(of => s", ${of.text}")
    val others = if (orphans) ", orphans=true" else ""
    s"how=${output.name}, before=${Durations.text(window.before)}, after=${Durations.text(window.after)}, " +
      s"${form.text}, on_late=$onLate$late$lateLefts$one$others$amends$versions$when$steps$closing$keys$ratio"
  }

  /** The most that is emitted for one left row. All pairs are emitted. */
  def bound: MatchBound = if (isGrouped) form.bound else MatchBound.None
}

/** When the matches of a row are looked for. The result is the same, the work and the state are not.
  *
  * {{{
  *             written                                  right rows are kept until
  *   lazy      each row once                            watermark - after - before, and a release step
  *   eager     left rows, an index of their keys,       watermark - before
  *             right rows, and each match once
  *   decided   each row once, and which left rows       watermark
  *             have gone
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

  /** When the watermark has reached the first match. Only where the user asks for such rows. */
  case object Decided extends MatchStrategy("decided", "when the first match is certain")

  /** Those that a configuration may name. */
  val values: Seq[MatchStrategy] = Seq(Lazy, Eager)
}
