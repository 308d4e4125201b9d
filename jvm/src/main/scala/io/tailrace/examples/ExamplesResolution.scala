package io.tailrace.examples

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.tailrace.{SparkPlans, StreamWatermarks}
import org.apache.spark.sql.types.StructField

import io.tailrace.common.{Durations, OwnNames, Policy, ProgressName, Side, TimeSpan}
import io.tailrace.explain.StreamKind
import io.tailrace.join.JoinCheckpoint.{Credits, OfExamples}
import io.tailrace.join.{
  ColumnWords,
  JoinColumns,
  JoinSides,
  LeftRowWriter,
  OnStall,
  PinnedSetting,
  SideWords
}
import io.tailrace.label.{
  GroupChange,
  GroupForm,
  GroupWriter,
  InWindow,
  JoinOptions,
  JoinResolution,
  JoinWindow,
  LabelJoin,
  LabelStream,
  LabelStreams,
  MatchBound,
  Matches,
  NegativeBalance,
  VersionColumns
}
import io.tailrace.plan.Columns
import io.tailrace.state.RowMemory

/** Makes one join of the impressions with all labels, and columns of its groups:
  *
  * {{{
  *   clicks ─┐
  *   orders ─┴─ LabelUnion ──> tailrace.join on the keys that all labels have ──> a column for each label
  *   impressions ────────────>   its window holds those of all labels              (LabelMatches)
  * }}}
  *
  * So an impression is in the state once, and its row is emitted when the longest window has closed. Each label
  * has its own window, keys and policy after the join.
  *
  * @param features their streams, which the examples wait for, too
  * @param sameName the session's rule for names, case-insensitive by default
  */
private[tailrace] final class ExamplesResolution(
    left: LogicalPlan,
    labels: Seq[GivenLabel],
    features: Seq[(LogicalPlan, ExampleFeatures)],
    sameName: (String, String) => Boolean
) {
  import ExamplesResolution._

  def resolve(options: ExampleOptions): LogicalPlan = {
    checkNames()
    val found = labels.map(find(_, options))
    val common = left.output.filter(a => found.forall(_.on.exists(_._1.exprId == a.exprId)))
    if (common.isEmpty)
      throw ExampleErrors.noCommonKey(found.map(one => one.label.name -> one.on.map(_._1.name)))
    val union = new LabelUnion(left, timeOf(left, options), found, common)
    val joined = join(union, found, common, options)
    // The hash of an impression is internal to the state. No user column has this name.
    if (joined.output.exists(_.name == LabelUnion.Hash))
      Project(joined.output.filter(_.name != LabelUnion.Hash), joined)
    else joined
  }

  private def checkNames(): Unit = {
    import ExampleOptions.arguments
    if (labels.isEmpty) throw ExampleErrors.noLabel()
    val names = labels
      .map(_.label)
      .flatMap(one => one.name +: one.maxMatches.toSeq.map(_ => LabelRule.truncated(one.name)))
    names.indices.foreach { i =>
      if (names.take(i).exists(sameName(_, names(i))))
        throw arguments.invalid("name", names(i), "a name that no other column of a label has")
    }
  }

  /** Checks the label as the join of it alone would. */
  private def find(asGiven: GivenLabel, options: ExampleOptions): FoundLabel = {
    val label = asGiven.label
    val join = label.alone(options)
    new JoinResolution(left, asGiven.plan, sameName).resolve(label.on, join)
    val right = rights.find(_._1 eq asGiven.plan).get._2
    val sides = new JoinSides(join.arguments, left, right, sameName, join.words)
    val (lefts, columns) = (sides.columns(Side.Left), sides.columns(Side.Right))
    // Without checks: their types may still have to be made equal.
    val on = label.on.map { case (l, r) => lefts.find("on", l) -> columns.find("on", r) }
    val attribution = label.attribution.map(_.settings(join.arguments))
    label.stall(options): Unit
    if (attribution.exists(_.isShared))
      columns.checkAdded(LabelRule.Credit.name, Columns.rename(LabelRule.Credit.name))
    val where = asGiven.where.map(_.transform {
      case a: Attribute if asGiven.plan.outputSet.contains(a) =>
        right.output(asGiven.plan.output.indexWhere(_.exprId == a.exprId))
    })
    val settings = join.settings
    val time = lefts.find("time", options.time)
    val since = label.since.map { since =>
      val allowed = "a timestamp as Spark reads it, such as 2026-01-31 00:00:00"
      asGiven
        .micros(since, time.dataType)
        .getOrElse(throw join.arguments.invalid("since", SparkPlans.valueText(since), allowed))
    }
    FoundLabel(
      label,
      right,
      on,
      columns.find("time", label.time),
      where,
      settings.window,
      join.group,
      attribution,
      since
    )
  }

  /** A plan that several labels have is read once, so it has one form of its own beside the left side. */
  private lazy val rights: Seq[(LogicalPlan, LogicalPlan)] =
    labels.map(_.plan).foldLeft(Seq.empty[(LogicalPlan, LogicalPlan)]) { (known, plan) =>
      if (known.exists(_._1 eq plan)) known
      else known :+ (plan -> new JoinSides(ExampleOptions.arguments, left, plan, sameName).right)
    }

  private def join(
      union: LabelUnion,
      found: Seq[FoundLabel],
      common: Seq[Attribute],
      options: ExampleOptions
  ): LogicalPlan = {
    if (options.horizons.nonEmpty)
      // A later impression may have a share of an event: the shares are known only after the label's own window.
      found.find(one => one.isAttributed && one.window.before > 0).foreach { one =>
        throw one.label
          .alone(options)
          .arguments
          .conflict(
            "before",
            Durations.words(one.window.before),
            "horizons",
            "the label has an attribution, and a later impression may get a share of an event"
          )
      }
    found.find(_.isAttributed).foreach(checkIsFinal(_, options))
    val windows = found.map(_.joinWindow)
    val all = JoinOptions(
      leftTime = options.time,
      rightTime = LabelUnion.Time,
      after = TimeSpan.ofMicros(windows.map(_.after).max),
      before = TimeSpan.ofMicros(windows.map(_.before).max),
      into = Group,
      onLate = options.onLate,
      // Some of the impressions that share a late event may have been emitted without it, and some of those whose events
      // a late impression shares.
      lateLabels = Option.when(found.exists(_.isAttributed))(false),
      lateImpressions = Option.when(found.exists(_.isAttributed))(false),
      releaseEvery = options.releaseEvery,
      horizons = options.horizons,
      emit = options.emit,
      idleTimeout = options.idleTimeout,
      amendFor = options.amendFor,
      orphans = options.orphans,
      call = ExampleOptions.arguments.call,
      words = SideWords.ofExamples("the impressions", "the labels")
    )
    val bound = found.map(one => s"$OfExamples${one.label.name}" -> one.bound(common)) ++
      found.flatMap(one => one.boundCredits.map(s"$Credits${one.label.name}" -> _)) ++
      options.sample.map(sample => s"$OfExamples${LabelWords.Seed}" -> sample.seed.toString)
    val withHash = if (found.exists(_.isAttributed)) Project(left.output :+ union.ownHash, left) else left
    val form = LabelColumns(found.zipWithIndex.map { case (one, i) =>
      val beside = found.filter(other => (other ne one) && other.stream == one.stream)
      one.rule(i, common, beside.map(_.label.name).toSet)
    })
    val joined = new JoinResolution(withHash, union.plan, sameName)
      .resolve(common.map(a => a.name -> a.name), all, Some(form), streams(found, options), balance(options))
    // The impressions may be examples themselves: the first one from above is this one.
    val outermost = joined.collectFirst { case join: LabelJoin => join }
    joined.transformDown {
      case join: LabelJoin if outermost.exists(_ eq join) =>
        val touch = if (leavesTouches(found)) union.touch(join.left.output, join.leftTime) else Nil
        val asked = options.sample.toSeq.flatMap(Sampling.asked(_, join.output.map(_.name)))
        val kept = found.flatMap(_.on.map(_._1.name)) ++ asked
        join.copy(
          settings = join.settings.copy(alsoBound = bound.toMap),
          touch = touch,
          // Keys of labels that the join doesn't have, and the columns that the sample needs.
          kept = join.left.output.filter(a => kept.exists(sameName(_, a.name))),
          identity = join.left.output.find(_.exprId == union.ownHash.exprId)
        )
    }
  }

  /** Refuses options that emit examples early, or twice: such an example's share of an event would change with events
    * and impressions that arrive later.
    */
  private def checkIsFinal(one: FoundLabel, options: ExampleOptions): Unit = {
    def refuse(argument: String, length: TimeSpan, why: String) = {
      val reason = s"$why, by the attribution of label '${one.label.name}'"
      throw ExampleOptions.arguments.conflict(argument, length, "attribution", reason)
    }
    options.amendFor.foreach(
      refuse("amend_for", _, "a late event would change the shares of several examples")
    )
    options.idleTimeout.foreach { length =>
      refuse("idle_timeout", length, "a flushed example would lack impressions that share its events")
    }
    // Each impression is read twice, as an example and as a touch.
    if (!left.isStreaming && !left.deterministic) throw ExampleErrors.impressionsChange(one.label.name)
  }

  private def streams(found: Seq[FoundLabel], options: ExampleOptions): Option[LabelStreams] = {
    val streams = watched(found, options)
    // With an attribution, no label accepts late events.
    for {
      one <- found.find(_.isAttributed)
      stream <- streams.streams.find(_.onStall.policy == Policy.Exclude)
      excluded <- found.find(other => stream.labels.contains(other.label.name))
    } throw excluded.label
      .alone(options)
      .arguments
      .conflict(
        "on_stall",
        Policy.Exclude.name,
        "attribution",
        s"${JoinOptions.ExcludedAreLate}, by the attribution of label '${one.label.name}'"
      )
    Option(streams).filter(_.isNeeded(left.isStreaming))
  }

  private def watched(found: Seq[FoundLabel], options: ExampleOptions): LabelStreams = {
    val byStream = found.groupBy(_.stream).toSeq.sortBy { case (_, of) => found.indexOf(of.head) }
    LabelStreams(
      Some(ProgressName("labels", options.name, ExampleOptions.Name)),
      byStream.map { case (nodes, of) =>
        val after = of.map(_.joinWindow.after).max
        LabelStream(
          of.map(_.label.name),
          nodes,
          strictest(of.map(_.label.stall(options))),
          after = Some(after)
        )
      } ++ ofFeatures(options)
    )
  }

  /** Labels of one stream wait for it together: "fail" if one of them has it, "exclude" only if all have. */
  private def strictest(stalls: Seq[OnStall]): OnStall = {
    val policy = Seq(Policy.Fail, Policy.Pause).find(one => stalls.exists(_.policy == one))
    val counted = stalls.filter(stall => policy != Some(Policy.Fail) || stall.policy == Policy.Fail)
    OnStall(policy.getOrElse(Policy.Exclude), counted.map(_.afterMs).min)
  }

  /** Those whose stream the user has a policy for. */
  private def ofFeatures(options: ExampleOptions): Seq[LabelStream] = features.flatMap { case (plan, one) =>
    val stall = one.stall(options)
    val nodes = StreamWatermarks.nodesIn(plan)
    Option.when(one.stallAfter.orElse(options.stallAfter).nonEmpty)(
      LabelStream(Seq(one.name), nodes, stall, StreamKind.Features)
    )
  }

  /** True if the operator makes a touch of each impression. */
  private def leavesTouches(found: Seq[FoundLabel]): Boolean =
    left.isStreaming && found.exists(_.isAttributed)

  /** Only partitions of a stream have examples that they emitted before. */
  private def balance(options: ExampleOptions): Option[NegativeBalance] =
    options.sample
      .filter(_.ratio.nonEmpty)
      .map(new SampleRatio(_, options, labels.map(_.label), sameName).balance)
      .filter(_ => left.isStreaming)

  private def timeOf(plan: LogicalPlan, options: ExampleOptions): Attribute =
    new Columns(ExampleOptions.arguments, plan.output, sameName).find("time", options.time)
}

private object ExamplesResolution {

  /** A name that no column has: each label has its own. */
  val Group: String = OwnNames.of("labels")
}

/** A column for each label, out of a group of all labels ([[LabelUnion]]).
  *
  * {{{
  *   matches of (user 1, 12:00)   (12:03, click)  (12:20, click)  (12:30, buy)
  *   click, after = 10 minutes    [(12:03, click)]
  *   buy, after = 1 day           [(12:30, buy)]
  * }}}
  */
private[examples] final case class LabelColumns(rules: Seq[LabelRule]) extends GroupForm {
  override def text: String = s"labels=[${rules.map(_.text).mkString(", ")}]"

  // A label can choose among them only when all have arrived: touches are among them.
  override def bound: MatchBound = MatchBound.None

  override def pinned(ofJoin: Seq[PinnedSetting], bound: Map[String, String]): Seq[PinnedSetting] =
    new LabelWords(rules).pinned(ofJoin, bound)

  override def mayShrink: Boolean = true

  override def columnWords: ColumnWords = new LabelWords(rules)

  override def size: Int = rules.map(_.fields.size).sum

  override def fields(into: String, payload: Seq[Attribute]): Seq[StructField] = rules.flatMap(_.fields)

  override def empty(columns: JoinColumns): Seq[Expression] =
    values { rule =>
      val none = Literal.create(Nil, rule.columnType)
      rule.since.fold[Expression](none) { since =>
        val start = Literal(since, columns.leftTime.dataType)
        If(LessThan(columns.leftTime, start), Literal(null, rule.columnType), none)
      }
    }

  /** A row may be of a label that was left out, or a touch. */
  override def isEvent(columns: JoinColumns): Expression =
    rules.map(rule => IsNotNull(event(columns, rule)): Expression).reduce(Or(_, _))

  /** Each label has its own further keys and window. */
  override def isMatch(columns: JoinColumns, window: JoinWindow): Expression = rules
    .map { rule =>
      val keys = Option.when(rule.keys.nonEmpty) {
        val lefts = rule.keys.map { case (name, to) => columns.left.find(_.name == name).get -> to }
        EqualTo(LabelUnion.bytes(lefts), GetStructField(columns.payload(rule.place), LabelUnion.KeysPlace))
      }
      val since = rule.since.map { micros =>
        GreaterThanOrEqual(columns.leftTime, Literal(micros, columns.leftTime.dataType))
      }
      val isInWindow = InWindow(columns.leftTime, columns.rightTime, rule.window)
      (Seq[Expression](IsNotNull(event(columns, rule)), isInWindow) ++ keys ++ since).reduce(And(_, _))
    }
    .reduce(Or(_, _))

  override def matchesAll: Boolean = false

  private def event(columns: JoinColumns, rule: LabelRule): Expression =
    GetStructField(columns.payload(rule.place), LabelUnion.RowPlace)

  /** A late right row is credited to no other. */
  override def alone(columns: JoinColumns): Seq[Expression] =
    values { rule =>
      val event = this.event(columns, rule)
      val ofRow = rule.row.fieldNames.zipWithIndex.toSeq.flatMap { case (name, i) =>
        Seq(Literal(name), GetStructField(event, i))
      }
      val credit =
        if (rule.isShared)
          Seq(
            Literal(LabelRule.Credit.name),
            Literal(Attribution.decimal(Attribution.Whole), LabelRule.Credit.dataType)
          )
        else Nil
      val one = Cast(CreateArray(Seq(CreateNamedStruct(ofRow ++ credit))), rule.columnType)
      If(IsNull(event), Literal.create(Nil, rule.columnType), one)
    }

  /** An event of several labels has the key of the first one that has it. */
  override def keyAlone(left: Attribute, columns: JoinColumns): Option[Expression] = {
    val found = for {
      rule <- rules
      place = rule.keys.indexWhere(_._1 == left.name)
      if place >= 0
    } yield {
      val bytes = GetStructField(columns.payload(rule.place), LabelUnion.KeysPlace)
      val value = KeyOfBytes(bytes, rule.keys.map(_._2), place)
      Cast(value, left.dataType, evalMode = EvalMode.TRY): Expression
    }
    Option.when(found.nonEmpty)(Coalesce(found))
  }

  private def values(column: LabelRule => Expression): Seq[Expression] =
    rules.flatMap(rule => column(rule) +: rule.maxMatches.toSeq.map(_ => Literal(false)))

  override def writer(columns: JoinColumns, version: VersionColumns, memory: RowMemory): GroupWriter =
    new LabelWriter(rules, columns, version, memory)

  override def change(columns: JoinColumns): GroupChange = new LabelChange(rules, columns)
}

/** Compares the columns of all labels. */
private final class LabelChange(rules: Seq[LabelRule], columns: JoinColumns) extends GroupChange {
  private val now = rules.map(new LabelEvents(_, columns)).toArray
  private val before = rules.map(new LabelEvents(_, columns)).toArray
  private var changed = false
  private var gained = false

  override def isChanged: Boolean = changed
  override def hasGained: Boolean = gained

  override def compare(left: UnsafeRow, leftTime: Long, matches: Matches, earlier: Matches): Unit = {
    changed = false
    gained = false
    var i = 0
    while (i < now.length) {
      now(i).find(left, leftTime, matches)
      before(i).find(left, leftTime, earlier)
      if (!now(i).isSame(before(i))) {
        changed = true
        if (before(i).size == 0) gained = true
      }
      i += 1
    }
  }
}

/** Writes a row of examples: the left columns, then the events of each label, and whether its cap has cut them. Events
  * are copied once, as their bytes in the state; only a shared credit makes new rows of them.
  */
private[examples] final class LabelWriter(
    rules: Seq[LabelRule],
    columns: JoinColumns,
    version: VersionColumns,
    memory: RowMemory
) extends GroupWriter(columns, version, memory) {
  private val labels = rules.map(new LabelEvents(_, columns)).toArray
  private val isCapped = rules.map(_.maxMatches.nonEmpty).toArray
  private var size = 0
  private var leftOut = 0

  override def lastSize: Int = size
  override def lastLeftOut: Int = leftOut

  override protected def find(left: UnsafeRow, leftTime: Long, matches: Matches): Long = {
    size = 0
    leftOut = 0
    var bytes = 0L
    var i = 0
    while (i < labels.length) {
      val label = labels(i)
      label.find(left, leftTime, matches)
      if (matched != null) label.tellMatched(matches, matched)
      if (!label.isNull) {
        bytes += LeftRowWriter.arrayBytes(label.size) + label.bytes
        size += label.size
        leftOut += label.leftOut
      }
      i += 1
    }
    bytes
  }

  override protected def writeFound(at: Int): Unit = {
    var column = 0
    var end = at
    var i = 0
    while (i < labels.length) {
      val label = labels(i)
      if (label.isNull) writeNull(column)
      else {
        beginArray(end, label.size)
        var event = 0
        while (event < label.size) {
          addElement(event, label.base(event), label.offset(event), label.length(event))
          event += 1
        }
        end = endArray(column)
      }
      column += 1
      if (isCapped(i)) {
        putFlag(column, !label.isNull && label.leftOut > 0)
        column += 1
      }
      i += 1
    }
  }
}
