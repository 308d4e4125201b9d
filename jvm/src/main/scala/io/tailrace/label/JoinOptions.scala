package io.tailrace.label

import java.util.Locale

import io.tailrace.common.{Arguments, Policy}
import io.tailrace.join.JoinErrors

/** The arguments of [[io.tailrace.api.Tailrace.join]] besides the DataFrames and the keys. Names and defaults are those of
  * Python.
  *
  * @param leftTime   timestamp column of the left side, with a watermark if it streams
  * @param rightTime  timestamp column of the right side, likewise
  * @param after      how long after the left row's time a right row may be; a duration such as "30 minutes"
  * @param before     how long before it
  * @param how        "left", "leftouter" or "left_outer": a row per left row when its window has closed; "inner": a row per
  *                   pair, on match
  * @param into       with "left", the column of the group
  * @param `match`    with "left", which matches come out: "all", "first", "last" or "nearest" in event time
  * @param maxMatches with "left", a cap on the group; adds a column `<into>_truncated`
  * @param onLate     "drop" or "mark": whether late rows come out, with the reason in a column `_mark`
  */
final case class JoinOptions(
    leftTime: String,
    rightTime: String,
    after: String,
    before: String = "0 seconds",
    how: String = "left",
    into: String = JoinOptions.Into,
    `match`: String = "all",
    maxMatches: Option[Int] = None,
    onLate: String = "drop"
) {
  import JoinOptions._

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: JoinSettings = {
    val output = joinOutput
    val policy = arguments.choice("match", `match`, MatchPolicy.values)
    val marksLate = arguments.choice("on_late", onLate, Policy.onLate) == Policy.Mark
    maxMatches.foreach(n => arguments.number("max_matches", n.toLong, least = 1))
    if (into.isEmpty) throw arguments.invalid("into", "empty", "the name of a column")
    if (output == JoinOutput.Pairs) {
      if (policy != MatchPolicy.All) throw JoinErrors.optionConflict("match", `match`)
      maxMatches.foreach(n => throw JoinErrors.optionConflict("max_matches", n.toString))
      if (into != Into) throw JoinErrors.optionConflict("into", into)
    }
    val window = JoinWindow(arguments.duration("before", before), arguments.duration("after", after))
    JoinSettings(window, output, policy, maxMatches, marksLate)
  }

  /** As Spark reads the type of a join: any case, and underscores don't count. */
  private def joinOutput: JoinOutput = {
    def plain(text: String) = text.toLowerCase(Locale.ROOT).replace("_", "")
    JoinOutput.values
      .find(output => output.names.exists(plain(_) == plain(how)))
      .getOrElse(throw arguments.invalid("how", how, Arguments.oneOf(JoinOutput.values.flatMap(_.names))))
  }
}

object JoinOptions {
  private[label] val arguments = new Arguments("tailrace.join")

  /** Who gives no other name doesn't ask for a group. */
  private[label] val Into = "labels"
}
