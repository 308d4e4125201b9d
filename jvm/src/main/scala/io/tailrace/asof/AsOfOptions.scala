package io.tailrace.asof

import io.tailrace.common.{Arguments, Durations, Policy}
import io.tailrace.join.{CloseAfter, SideWords}

/** The arguments of [[io.tailrace.api.Tailrace.asOf]] besides the DataFrames and the keys. Names and defaults
  * are those of Python.
  *
  * @param leftTime  timestamp column of the left side, with a watermark if it streams
  * @param rightTime timestamp column of the right side, likewise
  * @param into      the column of the right row
  * @param maxAge    how much older than `leftTime - delay` the right row may be; none: however old
  * @param delay     how long before `leftTime` the right row has to be at the least
  * @param closeAfter after how long without any input of the query the rows that wait come out, though the watermark
  *                  stands: a duration
  * @param onLate    "drop" or "mark": whether left rows behind the watermark come out, without a right row and with the
  *                  reason in a column `_mark`
  * @param passesLate whether they are emitted as ordinary rows. They have a mark already
  * @param call      what a user has called, for errors; `words` likewise: what the sides are for the user
  */
final case class AsOfOptions(
    leftTime: String,
    rightTime: String,
    into: String = "features",
    maxAge: Option[String] = None,
    delay: String = "0 seconds",
    closeAfter: Option[String] = None,
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
    AsOfSettings(window, into, late, closeAfter.map(arguments.millis(CloseAfter.Argument, _)))
  }
}

/** What becomes of left rows behind the watermark. None of them has a right row: it may be gone. */
sealed trait LateLefts

object LateLefts {
  case object Dropped extends LateLefts

  /** They are emitted as ordinary rows. */
  case object Passed extends LateLefts

  /** They are emitted with a mark. */
  case object Marked extends LateLefts
}

/** The settings of an as-of join, without its columns. */
final case class AsOfSettings(
    window: AsOfWindow,
    into: String,
    late: LateLefts = LateLefts.Dropped,
    closeAfterMs: Option[Long] = None
) {

  /** In `explain`, by the names of the arguments. */
  def text: String = {
    val age = window.maxAge.fold("")(age => s", max_age=${Durations.text(age)}")
    val closing = closeAfterMs.fold("")(ms => s", close_after=${Durations.text(ms * 1000)}")
    val marks = if (late == LateLefts.Marked) ", on_late=mark" else ""
    s"into=$into, delay=${Durations.text(window.delay)}$age$marks$closing"
  }
}
