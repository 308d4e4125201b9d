package io.tailrace.asof

import io.tailrace.common.WatermarkRules.saturatingAdd
import io.tailrace.common.{Arguments, CallDocument, Durations, Policy, TimeSpan, WatermarkRules}
import io.tailrace.join.{IdleTimeout, SideWords}

/** The arguments of [[io.tailrace.api.Tailrace.asOf]] besides the DataFrames and the keys. Names and defaults
  * are those of Python.
  *
  * @param leftTime  timestamp column of the left side, with a watermark if it streams
  * @param rightTime timestamp column of the right side, likewise
  * @param into      the column of the right row
  * @param maxAge    the greatest age of the right row at `leftTime - delay`; none: any age
  * @param delay     the minimum time from the right row to `leftTime`
  * @param idleTimeout the idle time of the query after which buffered rows are flushed without advancing the watermark
  * @param onLate    "drop" or "mark": "mark" emits late left rows, without a right row and with the reason in a column
  *                  `_mark`
  * @param passesLate true: late left rows are emitted as ordinary rows, because they have a mark already
  * @param call      the function that the user has called, for errors; `words` likewise: the user's words for the sides
  */
final case class AsOfOptions(
    leftTime: String,
    rightTime: String,
    into: String = "features",
    maxAge: Option[TimeSpan] = None,
    delay: TimeSpan = "0 seconds",
    idleTimeout: Option[TimeSpan] = None,
    onLate: String = Policy.Drop.name,
    passesLate: Boolean = false,
    call: String = "tailrace.as_of",
    words: SideWords = SideWords.OfJoin
) {
  private[tailrace] val arguments = new Arguments(call)

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: AsOfSettings = {
    if (into.isEmpty) throw arguments.invalid(words.into, "", "the name of a column")
    val window =
      AsOfWindow(arguments.duration("delay", delay), maxAge.map(arguments.duration("max_age", _)))
    val marksLate = arguments.choice("on_late", onLate, Policy.onLate) == Policy.Mark
    val late = if (marksLate) LateLefts.Marked else if (passesLate) LateLefts.Passed else LateLefts.Dropped
    AsOfSettings(window, into, late, idleTimeout.map(arguments.millis(IdleTimeout.Argument, _)))
  }
}

object AsOfOptions {

  /** The argument with the table of the first rows, which is a DataFrame and so none of the options. */
  private[asof] val Initial = "initial"

  private[tailrace] def of(document: CallDocument): AsOfOptions = AsOfOptions(
    leftTime = document("left_time").text,
    rightTime = document("right_time").text,
    into = document("into").text,
    maxAge = document.get("max_age").map(_.duration),
    delay = document("delay").duration,
    idleTimeout = document.get("idle_timeout").map(_.duration),
    onLate = document("on_late").text
  )
}

/** The treatment of late left rows. They are emitted without a right row, which may have been evicted. */
sealed trait LateLefts

object LateLefts {
  case object Dropped extends LateLefts

  /** They are emitted as ordinary rows. */
  case object Passed extends LateLefts

  /** They are emitted with a mark. */
  case object Marked extends LateLefts
}

/** The settings of an as-of join, without its columns.
  *
  * @param hasInitial whether the first micro-batch reads a table
  */
final case class AsOfSettings(
    window: AsOfWindow,
    into: String,
    late: LateLefts = LateLefts.Dropped,
    idleTimeoutMs: Option[Long] = None,
    hasInitial: Boolean = false
) {

  /** In `explain`, by the names of the arguments. */
  def text: String = {
    val age = window.maxAge.fold("")(age => s", max_age=${Durations.text(age)}")
    val closing = idleTimeoutMs.fold("")(ms => s", idle_timeout=${Durations.text(ms * 1000)}")
    val marks = if (late == LateLefts.Marked) ", on_late=mark" else ""
    s"into=$into, delay=${Durations.text(window.delay)}$age$marks$closing"
  }
}

/** Defines the right rows that a left row may find, and the time when that is decided. Times and distances are
  * microseconds. A left row at L looks back from its point, L - delay: at right rows from L - delay - maxAge to
  * L - delay, both inclusive. It takes the newest of them.
  *
  * {{{
  *   delay = 1 min, maxAge = 10 min, L = 12:11     point 12:10, right rows from 12:00 to 12:10
  *   W = 12:09   a right row of 12:10 may still arrive: nothing is decided
  *   W = 12:10   none can arrive any longer: the left row is emitted
  * }}}
  *
  * @param maxAge none: any age
  */
final case class AsOfWindow(delay: Long, maxAge: Option[Long]) {

  // Points of earlier left rows would be before the first time.
  private val earliestWithPoint = saturatingAdd(Long.MinValue, delay)

  /** The smallest time if the point would be before it: then [[takes]] refuses each right row. */
  def point(leftTime: Long): Long = saturatingAdd(leftTime, -delay)

  /** True if a left row takes a right row that isn't after [[point]]. */
  def takes(leftTime: Long, rightTime: Long): Boolean =
    leftTime >= earliestWithPoint && rightTime >= oldest(leftTime)

  /** No right row before this time is taken. */
  def oldest(leftTime: Long): Long =
    maxAge.fold(Long.MinValue)(age => saturatingAdd(point(leftTime), -age))

  /** Left rows whose points aren't after the watermark: they have all right rows that they may find. */
  def leftExpiry(watermark: Long): Long = WatermarkRules.behind(watermark, -delay)

  /** The points of future left rows are after this time: each left row is after the watermark. */
  def pointsThrough(watermark: Long): Long = WatermarkRules.behind(watermark, delay)

  /** Right rows up to this time are too old for points after `through`. */
  def rightExpiry(through: Long): Long = maxAge match {
    case Some(age) => WatermarkRules.behind(through, age)
    case None => WatermarkRules.NoWatermark
  }

  /** The watermark at which a right row is too old for any left row; none: only a newer row supersedes it. */
  def leaves(rightTime: Long): Option[Long] =
    maxAge.map(age => saturatingAdd(saturatingAdd(rightTime, age), delay))
}
