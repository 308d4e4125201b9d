package io.tailrace.label

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.StructField

import io.tailrace.common.{Arguments, Policy}
import io.tailrace.join.{CloseAfter, JoinErrors, JoinSides, OneEventTime, SideWords}
import io.tailrace.plan.{Columns, OwnColumns}

/** The arguments of [[io.tailrace.api.Tailrace.join]] besides the DataFrames and the keys. Names and
  * defaults are those of Python.
  *
  * @param leftTime   timestamp column of the left side, with a watermark if it streams
  * @param rightTime  timestamp column of the right side, likewise
  * @param after      how long after the left row's time a right row may be; a duration such as "30 minutes"
  * @param before     how long before it
  * @param how        "left", "leftouter" or "left_outer": a row per left row when its window has closed;
  *                   "inner": a row per pair, on match
  * @param into       with "left", the column of the group
  * @param `match`    with "left", which matches are emitted: "all", "first", "last" or "nearest" in event time
  * @param maxMatches with "left", a cap on the group; adds a column `<into>_truncated`
  * @param onLate     "drop" or "mark": whether late rows are emitted, with the reason in a column `_mark`
  * @param lateLabels whether right rows behind the watermark are matched as long as their left rows wait; none: they
  *                   are. With "inner" and `before`, what the checkpoint began with
  * @param releaseEvery with "left", how long the row of a left row may wait for others: a duration, or "batch";
  *                   none: a 64th of the window, or what the checkpoint began with
  * @param closeAfter with "left", after how long without any input of the query the rows that wait come out, though the
  *                   watermark stands: a duration
  * @param horizons   with "left", when versions of a left row come out: at its time plus each of these durations, which
  *                   ascend up to `after`, and in the end at its time plus `after`; adds columns `horizon`, `final`
  *                   and `changed`
  * @param emit       with horizons, which versions are emitted: "all", "changes", "late_positives" or "defer"
  * @param early      the one horizon before `after`
  * @param release    "closed", or with match = "first" "decided": a left row comes out when its window has closed, or as
  *                   soon as its first match is certain
  * @param exactlyOne with "inner", whether a left row has one match at the most, and a right row too: both leave the
  *                   state when they have been paired
  * @param amendFor   with "left", how long after its window has closed a left row may be amended: a late right row that
  *                   comes until then gives its group again; adds a column `_mark`
  * @param hot        keys with so many left rows that each is the work of several tasks: a value for each key
  *                   column
  * @param hotParts   over how many partitions such a key is split, 2 to 1,024; each keeps its right rows
  * @param call       what a user has called, for errors; `words` likewise: what the sides are for the user
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
    onLate: String = "drop",
    lateLabels: Option[Boolean] = None,
    releaseEvery: Option[String] = None,
    closeAfter: Option[String] = None,
    horizons: Seq[String] = Nil,
    emit: String = Emit.All.name,
    early: Option[String] = None,
    release: String = Release.Closed.name,
    exactlyOne: Boolean = false,
    amendFor: Option[String] = None,
    hot: Seq[Seq[Any]] = Nil,
    hotParts: Int = 8,
    call: String = "tailrace.join",
    words: SideWords = SideWords.OfJoin
) {
  import JoinOptions._

  private[tailrace] val arguments = new Arguments(call)

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: JoinSettings = {
    val output = joinOutput
    val one = group
    val marksLate = arguments.choice("on_late", onLate, Policy.onLate) == Policy.Mark
    if (into.isEmpty) throw arguments.invalid(words.into, "", "the name of a column")
    if (output == JoinOutput.Pairs) {
      if (one.policy != MatchPolicy.All) throw JoinErrors.optionConflict("match", `match`)
      maxMatches.foreach(n => throw JoinErrors.optionConflict("max_matches", n.toString))
      if (into != Into) throw JoinErrors.optionConflict("into", into)
      releaseEvery.foreach(text => throw JoinErrors.optionConflict("release_every", text))
      closeAfter.foreach(text => throw JoinErrors.optionConflict(CloseAfter.Argument, text))
      // Each part of a hot key has all of its right rows.
      if (exactlyOne && hot.nonEmpty)
        throw arguments.invalid(
          "exactly_one",
          "True",
          "without `hot`, whose keys have more than one left row"
        )
    } else if (exactlyOne)
      throw arguments.needs("exactly_one", "True", s"how='${JoinOutput.Pairs.name}'")
    val window = JoinWindow(arguments.duration("before", before), arguments.duration("after", after))
    val steps = releaseEvery.map {
      case ReleaseSteps.Batch => ReleaseSteps.EachBatch
      case text =>
        ReleaseSteps(arguments.duration("release_every", text, or = s"'${ReleaseSteps.Batch}', or "))
    }
    JoinSettings(
      window,
      output,
      one,
      marksLate,
      release = steps,
      hot = hotText,
      lateLabels = lateLabels,
      horizons = versions(output, window),
      exactlyOne = exactlyOne,
      decided = isDecided(output, one.policy, window),
      closeAfterMs = closeAfter.map(arguments.millis(CloseAfter.Argument, _)),
      amendFor = amendFor.map(amends(_, output))
    )
  }

  /** The salted keys as the checkpoint pins them: its buffered rows are partitioned by them. Values are as Spark holds
    * them, the same in each time zone.
    */
  private def hotText: Option[String] = Option.when(hot.nonEmpty) {
    val keys = hot.map(_.map(value => SparkPlans.valueText(lit(value))).mkString(", "))
    s"${keys.sorted.mkString("; ")} in $hotParts parts"
  }

  private def amends(text: String, output: JoinOutput): Long = {
    if (output == JoinOutput.Pairs) throw JoinErrors.optionConflict("amend_for", text)
    // Late rows that nobody takes amend nothing.
    if (lateLabels.contains(false))
      throw arguments.invalid("late_labels", "False", "True if `amend_for` is there")
    arguments.duration("amend_for", text, least = 1)
  }

  /** What comes out of the matches of a left row, if it isn't pairs. */
  private[tailrace] def group: OneGroup = {
    val policy = arguments.choice("match", `match`, MatchPolicy.values)
    maxMatches.foreach(n => arguments.number("max_matches", n.toLong, least = 1))
    OneGroup(policy, maxMatches)
  }

  /** Right rows from before a left row would have to be kept for those to come, and versions are emitted by times. */
  private def isDecided(output: JoinOutput, policy: MatchPolicy, window: JoinWindow): Boolean = {
    val isDecided = arguments.choice("release", release, Release.values) == Release.Decided
    if (isDecided) {
      if (output == JoinOutput.Pairs) throw JoinErrors.optionConflict("release", release)
      if (policy != MatchPolicy.First)
        throw arguments.needs("release", release, s"match='${MatchPolicy.First.name}'")
      if (window.before > 0) throw arguments.needs("release", release, "before='0 seconds'")
      if (horizons.nonEmpty || early.nonEmpty || amendFor.nonEmpty)
        throw arguments.invalid("release", release, "'closed' if `horizons`, `early` or `amend_for` is there")
      // Rows that silence closes may have matches that the watermark hasn't passed.
      if (closeAfter.nonEmpty)
        throw arguments.invalid("release", release, "'closed' if `close_after` is there")
    }
    isDecided
  }

  /** Of a row's versions that are emitted, no earlier one is looked for than those that can. */
  private def versions(output: JoinOutput, window: JoinWindow): Option[Horizons] = {
    val chosen = arguments.choice("emit", emit, Emit.values)
    val named = if (early.isEmpty) "horizons" -> horizons else "early" -> early.toSeq
    if (named._2.isEmpty) {
      if (chosen != Emit.All) throw arguments.needs("emit", emit, "horizons")
      None
    } else {
      val (argument, texts) = named
      if (output == JoinOutput.Pairs) throw JoinErrors.optionConflict(argument, texts.mkString(", "))
      if (early.nonEmpty && (horizons.nonEmpty || chosen != Emit.All))
        throw arguments.invalid("early", early.get, "left out if `horizons` or `emit` is there")
      val ends = texts.map(arguments.duration(argument, _))
      val isAscending = ends.zip(ends.drop(1)).forall { case (a, b) => a < b }
      if (!isAscending || ends.last > window.after)
        throw arguments.invalid(argument, texts.mkString(", "), "durations that ascend, up to `after`")
      val all = if (ends.last < window.after) ends :+ window.after else ends
      val looked = if (chosen == Emit.Defer) Seq(all.head, all.last).distinct else all
      Some(Horizons(looked, chosen))
    }
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

  /** The default of `into`. With how = "inner" no other name is allowed: nothing has it. */
  private[label] val Into = "labels"
}

/** Finds the columns that the arguments name, and checks what can be checked before a query runs.
  *
  * @param sameName the session's rule for names, case-insensitive by default
  */
private[tailrace] final class JoinResolution(
    left: LogicalPlan,
    right: LogicalPlan,
    sameName: (String, String) => Boolean
) {

  /** @param form what comes out of the matches of a left row; none: what the options say */
  def resolve(
      on: Seq[(String, String)],
      options: JoinOptions,
      form: Option[GroupForm] = None
  ): LogicalPlan = {
    val asked = options.settings
    val settings = asked.copy(form = form.getOrElse(asked.form))
    val sides = new JoinSides(options.arguments, left, right, sameName, options.words)
    sides.checkAreAlike()
    sides.withWiderKeys(on, settings.hasMarks)(resolve(_, on, options, settings))
  }

  private def resolve(
      sides: JoinSides,
      on: Seq[(String, String)],
      options: JoinOptions,
      settings: JoinSettings
  ): LogicalPlan = {
    val (leftKeys, rightKeys) = sides.keys(on)
    val (leftTime, rightTime) = sides.times(options.leftTime, options.rightTime)
    sides.checkWatermarks(leftTime, rightTime)
    val payload = sides.payload(rightKeys)
    val added = addedColumns(sides, settings, options, payload)
    val paired = if (settings.isGrouped) Nil else pairedColumns(payload, rightTime, settings)
    OwnColumns.renewable(
      LabelJoin(sides.left, sides.right, leftKeys, rightKeys, leftTime, rightTime, settings, paired, added)
    )
  }

  private def pairedColumns(payload: Seq[Attribute], rightTime: Attribute, settings: JoinSettings) =
    OneEventTime.of(payload, rightTime).map { a =>
      AttributeReference(a.name, a.dataType, a.nullable || settings.marksLate, a.metadata)()
    }

  private def toAttribute(field: StructField): Attribute =
    AttributeReference(field.name, field.dataType, field.nullable)()

  private def addedColumns(
      sides: JoinSides,
      settings: JoinSettings,
      options: JoinOptions,
      payload: Seq[Attribute]
  ): Seq[Attribute] = {
    import options.into
    val leftColumns = sides.columns("left")
    def checkAdded(columns: Columns)(a: Attribute): Unit = columns.checkAdded(a.name, Columns.rename(a.name))
    val version = settings.version.attributes
    // A column beside the left columns must not have the name of one of them: users could select neither.
    if (settings.isGrouped) {
      if (payload.isEmpty) throw JoinErrors.labelEmpty(into)
      val group = settings.form.fields(into, payload).map(toAttribute)
      val another = s"Choose another name than '$into' for `${options.words.into}`."
      group.foreach(a => leftColumns.checkAdded(a.name, another))
      version.foreach { a =>
        checkAdded(leftColumns)(a)
        group.find(one => sameName(one.name, a.name)).foreach { one =>
          val argument = if (one.name == into) options.words.into else "name"
          throw options.arguments.invalid(argument, one.name, s"a name other than ${a.name}")
        }
      }
      group ++ version
    } else {
      (payload ++ version).foreach(checkAdded(leftColumns))
      // A right key isn't emitted.
      version
        .filter(mark => payload.exists(a => sameName(a.name, mark.name)))
        .foreach(checkAdded(sides.columns("right")))
      version
    }
  }
}
