package io.tailrace.label

import io.tailrace.common.{Durations, Errors}

/** The arguments of [[Tailrace.join]] besides the frames and the keys; the names and defaults are those of Python.
  *
  * @param leftTime   timestamp column of the left side, with a watermark if it streams
  * @param rightTime  timestamp column of the right side, likewise
  * @param after      how long after the left row's time a right row may be; a duration such as "30 minutes"
  * @param before     how long before it
  * @param how        "left": a row per left row when its window has closed; "inner": a row per pair, on match
  * @param into       with "left", the column of the group
  * @param matching   with "left", which matches come out: "all", "first", "last" or "nearest" in event time
  * @param maxMatches with "left", a cap on the group; adds a column `<into>_truncated`
  * @param late       "drop" or "emit": whether late rows come out, marked by a column `_late`
  */
final case class JoinOptions(
    leftTime: String,
    rightTime: String,
    after: String,
    before: String = "0 seconds",
    how: String = "left",
    into: String = JoinOptions.Into,
    matching: String = "all",
    maxMatches: Option[Int] = None,
    late: String = "drop"
) {

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: JoinSettings = {
    val output = JoinOutput.values
      .find(_.name == how)
      .getOrElse(throw Errors.optionInvalid("how", how, quoted(JoinOutput.values.map(_.name))))
    val policy = MatchPolicy.values
      .find(_.name == matching)
      .getOrElse(throw Errors.optionInvalid("match", matching, quoted(MatchPolicy.values.map(_.name))))
    if (!Seq("drop", "emit").contains(late))
      throw Errors.optionInvalid("late", late, quoted(Seq("drop", "emit")))
    maxMatches
      .filter(_ < 1)
      .foreach(n => throw Errors.optionInvalid("max_matches", n.toString, "one or more"))
    if (into.isEmpty) throw Errors.optionInvalid("into", into, "a column name")
    if (late == "emit" && output == JoinOutput.Grouped && into.equalsIgnoreCase(JoinSettings.LateColumn))
      throw Errors.optionInvalid("into", into, "another name: this is the column that marks late rows")
    if (output == JoinOutput.Pairs) {
      if (policy != MatchPolicy.All) throw Errors.optionConflict("match", matching)
      maxMatches.foreach(n => throw Errors.optionConflict("max_matches", n.toString))
      if (into != JoinOptions.Into) throw Errors.optionConflict("into", into)
    }
    val window = JoinWindow(Durations.parse("before", before), Durations.parse("after", after))
    JoinSettings(window, output, policy, maxMatches, late == "emit")
  }

  private def quoted(values: Seq[String]): String = values.map(v => s"\"$v\"").mkString(" or ")
}

object JoinOptions {

  /** Who gives no other name doesn't ask for a group. */
  private[label] val Into = "labels"
}
