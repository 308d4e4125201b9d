package io.tailrace.label

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Union}
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.tailrace.{SparkPlans, StreamWatermarks}
import org.apache.spark.sql.types.StructField

import io.tailrace.common.{Arguments, CallDocument, Policy, Side, TimeSpan}
import io.tailrace.explain.StreamKind
import io.tailrace.join.{IdleTimeout, JoinErrors, JoinSides, OnStall, OneEventTime, SideWords}
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
  * @param onLate     "drop" or "mark": "mark" emits late rows, with the reason in a column `_mark`
  * @param lateLabels true: late right rows are matched while their left rows are buffered; none: they are. With "inner" and `before`, what the checkpoint began with
  * @param lateImpressions true: with "left", late left rows are accepted while their window is open; none: they are, if
  *                   all right rows of their windows are in the state, which they aren't with release = "decided" or eager matching
  * @param releaseEvery with "left", the longest time that an output row is buffered to be emitted with others: a
  *                   duration, or "batch"; none: 1/64 of the window, or the checkpoint's value
  * @param idleTimeout with "left", the idle time of the query after which buffered rows are flushed without advancing
  *                   the watermark
  * @param horizons   with "left", provisional versions of a left row: one is emitted at its time plus each of these
  *                   durations, which ascend up to `after`, and the final one at its time plus `after`; adds columns
  *                   `horizon`, `final` and `changed`
  * @param emit       with horizons, which versions are emitted: "all", "changes", "late_positives" or "defer"
  * @param early      the one horizon before `after`
  * @param release    "closed": a left row is emitted when its window has closed; "decided", with match = "first": as
  *                   soon as its first match is certain
  * @param oneToOne with "inner", true asserts at most one match per left row and per right row: both are evicted when
  *                   they have been paired
  * @param amendFor   with "left", the time after the window's end during which a late right row updates the group of a
  *                   left row, which is then emitted again; adds a column `_mark`
  * @param orphans    with "left", true emits right rows that no emitted left row has, with the reason in a column `_mark`
  * @param saltedKeys        salted keys, whose left rows are too many for one task: a value for each key column
  * @param saltBuckets   the number of partitions of such a key, 2 to 1,024; each keeps the key's right rows; none: 8
  * @param onStall    "pause", "exclude" or "fail": the treatment of a side's stream that is idle while the other isn't
  * @param onLeftStall `onStall` of the left side; none: the same as of the right one
  * @param stallAfter the idle time; none: nobody watches the sides
  * @param call       the function that the user has called, for errors; `words` likewise: the user's words for the sides
  */
final case class JoinOptions(
    leftTime: String,
    rightTime: String,
    after: TimeSpan,
    before: TimeSpan = "0 seconds",
    how: String = "left",
    into: String = JoinOptions.Into,
    `match`: String = "all",
    maxMatches: Option[Int] = None,
    onLate: String = "drop",
    lateLabels: Option[Boolean] = None,
    lateImpressions: Option[Boolean] = None,
    releaseEvery: Option[TimeSpan] = None,
    idleTimeout: Option[TimeSpan] = None,
    horizons: Seq[TimeSpan] = Nil,
    emit: String = Emit.All.name,
    early: Option[TimeSpan] = None,
    release: String = Release.Closed.name,
    oneToOne: Boolean = false,
    amendFor: Option[TimeSpan] = None,
    orphans: Boolean = false,
    saltedKeys: Seq[Seq[Any]] = Nil,
    saltBuckets: Option[Int] = None,
    onStall: String = Policy.Pause.name,
    onLeftStall: Option[String] = None,
    stallAfter: Option[TimeSpan] = None,
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
      releaseEvery.foreach(given => throw JoinErrors.optionConflict("release_every", given.toString))
      idleTimeout.foreach(given => throw JoinErrors.optionConflict(IdleTimeout.Argument, given.toString))
      if (lateImpressions.contains(true)) throw JoinErrors.optionConflict("late_impressions", "True")
      // Each part of a salted key has all of its right rows.
      if (oneToOne && saltedKeys.nonEmpty)
        throw arguments.conflict("one_to_one", "True", "salted_keys", "a salted key has several left rows")
      if (orphans) throw JoinErrors.optionConflict("orphans", "True")
    } else if (oneToOne)
      throw arguments.needs("one_to_one", "True", s"how='${JoinOutput.Pairs.name}'")
    saltBuckets.filter(_ => saltedKeys.isEmpty).foreach { given =>
      throw arguments.needs("salt_buckets", given, "salted_keys")
    }
    if (orphans) checkOrphans()
    val window = JoinWindow(arguments.duration("before", before), arguments.duration("after", after))
    val steps = releaseEvery.map {
      case each if each.isText(ReleaseSteps.Batch) => ReleaseSteps.EachBatch
      case step =>
        ReleaseSteps(arguments.duration("release_every", step, or = s"'${ReleaseSteps.Batch}', or "))
    }
    JoinSettings(
      window,
      output,
      one,
      marksLate,
      release = steps,
      saltedKeys = saltedKeysText,
      lateLabels = lateLabels,
      lateImpressions = lateImpressions,
      horizons = versions(output, window),
      oneToOne = oneToOne,
      decided = isDecided(output, one.policy, window),
      idleTimeoutMs = idleTimeout.map(arguments.millis(IdleTimeout.Argument, _)),
      amendFor = amendFor.map(amends(_, output)),
      orphans = orphans
    )
  }

  /** A right row is an orphan when its left rows have been emitted, once and for all. */
  private def checkOrphans(): Unit = {
    def refuse(other: String, reason: String) = throw arguments.conflict("orphans", "True", other, reason)
    if (release == Release.Decided.name)
      refuse("release", "right rows are evicted when the watermark reaches them, matched or not")
    Seq("horizons" -> horizons.nonEmpty, "early" -> early.nonEmpty).collectFirst { case (other, true) =>
      refuse(other, "a version before the final one may have lacked the right row")
    }
    if (amendFor.nonEmpty)
      refuse(
        "amend_for",
        "a left row that is amended may still get a right row that was emitted as an orphan"
      )
    if (idleTimeout.nonEmpty)
      refuse(IdleTimeout.Argument, "right rows of flushed left rows may still arrive, and would be orphans")
    if (saltedKeys.nonEmpty)
      refuse("salted_keys", "each part of a salted key has all of its right rows, and matches some of them")
  }

  /** The salted keys as the checkpoint pins them: its buffered rows are partitioned by them. Values are as Spark holds
    * them, the same in each time zone.
    */
  private def saltedKeysText: Option[String] = Option.when(saltedKeys.nonEmpty) {
    val keys = saltedKeys.map(_.map(value => SparkPlans.valueText(lit(value))).mkString(", "))
    s"${keys.sorted.mkString("; ")} in $buckets parts"
  }

  /** The policies for the streams of the left and the right side; none: nobody watches them. */
  private[tailrace] def stalls: Option[(OnStall, OnStall)] = {
    def of(argument: String, value: String) = {
      val policy = OnStall.policy(arguments, argument, value, stallAfter)
      if (policy == Policy.Exclude) checkExcludes(argument, value)
      OnStall(policy, OnStall.afterMs(arguments, stallAfter))
    }
    val right = of("on_stall", onStall)
    if (right.policy == Policy.Exclude && lateLabels.contains(false))
      throw arguments.conflict("late_labels", "False", "on_stall", JoinOptions.ExcludedAreLate)
    val left = onLeftStall.fold(right)(of("on_left_stall", _))
    Option.when(stallAfter.nonEmpty)(left -> right)
  }

  /** Rows that are emitted without a stream have to be marked, once they are. */
  private[tailrace] def checkExcludes(argument: String, value: String): Unit = {
    if (joinOutput == JoinOutput.Pairs) throw JoinErrors.optionConflict(argument, value)
    val certain = Option.when(release == Release.Decided.name) {
      ("release", "without a stream, no match of a row is certain")
    }
    val versions = Seq("horizons" -> horizons.nonEmpty, "early" -> early.nonEmpty)
      .collectFirst { case (other, true) => (other, "a version would have to say which streams it lacks") }
    certain.orElse(versions).foreach { case (other, reason) =>
      throw arguments.conflict(argument, value, other, reason)
    }
  }

  /** The number of partitions of a salted key. */
  private[tailrace] def buckets: Int = saltBuckets.getOrElse(SaltBuckets)

  private def amends(length: TimeSpan, output: JoinOutput): Long = {
    if (output == JoinOutput.Pairs) throw JoinErrors.optionConflict("amend_for", length.toString)
    // Late rows that nobody takes amend nothing.
    if (lateLabels.contains(false))
      throw arguments
        .conflict("late_labels", "False", "amend_for", "late right rows that aren't accepted amend nothing")
    arguments.duration("amend_for", length, least = 1)
  }

  /** The rule that makes a group of the matches of a left row. */
  private[tailrace] def group: OneGroup = {
    val policy = arguments.choice("match", `match`, MatchPolicy.values)
    maxMatches.foreach(n => arguments.number("max_matches", n.toLong, least = 1))
    OneGroup(policy, maxMatches)
  }

  /** Refused with `before`, because earlier right rows would have to be kept for left rows to come, and with versions,
    * which are emitted by time.
    */
  private def isDecided(output: JoinOutput, policy: MatchPolicy, window: JoinWindow): Boolean = {
    val isDecided = arguments.choice("release", release, Release.values) == Release.Decided
    if (isDecided) {
      if (output == JoinOutput.Pairs) throw JoinErrors.optionConflict("release", release)
      if (policy != MatchPolicy.First)
        throw arguments.needs("release", release, s"match='${MatchPolicy.First.name}'")
      if (window.before > 0) throw arguments.needs("release", release, "before='0 seconds'")
      Seq("horizons" -> horizons.nonEmpty, "early" -> early.nonEmpty, "amend_for" -> amendFor.nonEmpty)
        .collectFirst { case (other, true) =>
          val reason = "a decided row is evicted when it is emitted, and has no further version"
          throw arguments.conflict("release", release, other, reason)
        }
      if (lateImpressions.contains(true)) {
        val reason = "right rows that a late left row may match are evicted when the watermark reaches them"
        throw arguments.conflict("late_impressions", "True", "release", reason)
      }
      if (idleTimeout.nonEmpty) {
        val reason = "rows that it flushes may have matches that aren't decided yet"
        throw arguments.conflict("release", release, "idle_timeout", reason)
      }
    }
    isDecided
  }

  /** The versions to look for: none that `emit` leaves out in any case. */
  private def versions(output: JoinOutput, window: JoinWindow): Option[Horizons] = {
    val chosen = arguments.choice("emit", emit, Emit.values)
    val named = if (early.isEmpty) "horizons" -> horizons else "early" -> early.toSeq
    if (named._2.isEmpty) {
      if (chosen != Emit.All) throw arguments.needs("emit", emit, "horizons")
      None
    } else {
      val (argument, given) = named
      if (output == JoinOutput.Pairs) throw JoinErrors.optionConflict(argument, given.mkString(", "))
      early.foreach { one =>
        if (horizons.nonEmpty)
          throw arguments.conflict("early", one, "horizons", "it is short for a single horizon")
        if (chosen != Emit.All)
          throw arguments.conflict("early", one, "emit", s"emit='$emit' chooses among versions of `horizons`")
      }
      val ends = given.map(arguments.duration(argument, _))
      val ascending =
        if (early.isEmpty) s"durations that ascend, up to ${words.after}" else s"at most ${words.after}"
      val isAscending = ends.zip(ends.drop(1)).forall { case (a, b) => a < b }
      if (!isAscending || ends.last > window.after)
        throw arguments.invalid(argument, given.mkString(", "), ascending)
      val all = if (ends.last < window.after) ends :+ window.after else ends
      val looked = if (chosen == Emit.Defer) Seq(all.head, all.last).distinct else all
      Some(Horizons(looked, chosen, argument))
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
  private val SaltBuckets = 8

  /** The reason why late right rows have to be accepted where a stream may be excluded. */
  private[tailrace] val ExcludedAreLate: String =
    "rows of an excluded stream are late when it is back, and would be missing in rows without a mark"

  private[tailrace] def of(document: CallDocument): JoinOptions = JoinOptions(
    leftTime = document("left_time").text,
    rightTime = document("right_time").text,
    after = document("after").duration,
    before = document("before").duration,
    how = document("how").text,
    into = document("into").text,
    `match` = document("match").text,
    maxMatches = document.get("max_matches").map(_.int),
    onLate = document("on_late").text,
    lateLabels = document.get("late_labels").map(_.flag),
    lateImpressions = document.get("late_impressions").map(_.flag),
    releaseEvery = document.get("release_every").map(_.duration),
    idleTimeout = document.get("idle_timeout").map(_.duration),
    horizons = document.get("horizons").toSeq.flatMap(_.list.map(_.duration)),
    emit = document("emit").text,
    early = document.get("early").map(_.duration),
    release = document("release").text,
    oneToOne = document("one_to_one").flag,
    amendFor = document.get("amend_for").map(_.duration),
    orphans = document("orphans").flag,
    saltedKeys = document.get("salted_keys").toSeq.flatMap(_.list.map(_.list.map(_.column))),
    saltBuckets = document.get("salt_buckets").map(_.int),
    onStall = document("on_stall").text,
    onLeftStall = document.get("on_left_stall").map(_.text),
    stallAfter = document.get("stall_after").map(_.duration)
  )

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

  /** @param form    makes an output row of the matches of a left row; none: as the options say
    * @param watched streams that the rows wait for; none: those of the sides, as the options say
    * @param balance see [[JoinSettings]]
    */
  def resolve(
      on: Seq[(String, String)],
      options: JoinOptions,
      form: Option[GroupForm] = None,
      watched: Option[LabelStreams] = None,
      balance: Option[NegativeBalance] = None
  ): LogicalPlan = {
    val asked = options.settings
    val settings = asked.copy(
      form = form.getOrElse(asked.form),
      streams = watched.orElse(streams(options, asked)),
      balance = balance
    )
    if (settings.orphans && settings.mayExclude) {
      val reason = "right rows of a stream that was excluded may still arrive, and would be orphans"
      throw options.arguments.conflict("orphans", "True", "on_stall", reason)
    }
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
    val join =
      LabelJoin(sides.left, sides.right, leftKeys, rightKeys, leftTime, rightTime, settings, paired, added)
    val rows = OwnColumns.renewable(join)
    if (settings.orphans && !sides.left.isStreaming) Union(Seq(rows, BatchOrphans.of(join))) else rows
  }

  /** The streams of the two sides, if the user has said what happens to one that stalls. */
  private def streams(options: JoinOptions, settings: JoinSettings): Option[LabelStreams] =
    options.stalls
      .map { case (onLeft, onRight) =>
        def of(side: Side, plan: LogicalPlan, onStall: OnStall, after: Option[Long]) = {
          val nodes = StreamWatermarks.nodesIn(plan)
          LabelStream(Seq(side.name), nodes, onStall, StreamKind.JoinSide, after)
        }
        val sides =
          Seq(of(Side.Left, left, onLeft, None), of(Side.Right, right, onRight, Some(settings.window.after)))
        LabelStreams(None, sides)
      }
      .filter(_.isNeeded(left.isStreaming))

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
    val leftColumns = sides.columns(Side.Left)
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
        .foreach(checkAdded(sides.columns(Side.Right)))
      version
    }
  }
}
