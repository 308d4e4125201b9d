package io.tailrace.examples

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.trees.TreePattern
import org.apache.spark.sql.types.Decimal
import org.apache.spark.sql.{AnalysisException, Column}

import io.tailrace.asof.AsOfOptions
import io.tailrace.common.Errors.refuse
import io.tailrace.common.{Arguments, CallDocument, Policy, TailraceAnalysisException, TimeSpan}
import io.tailrace.join.{OnStall, SideWords}
import io.tailrace.label.{Emit, JoinOptions}

/** The arguments of [[io.tailrace.api.Tailrace.examples]] that hold for all labels. Names and defaults are
  * those of Python.
  *
  * @param time         timestamp column of the impressions, with a watermark if they stream
  * @param onLate       "drop" or "mark", as in [[io.tailrace.label.JoinOptions]]
  * @param releaseEvery the longest time that an example is buffered after its last window has closed, to be emitted
  *                     with others
  * @param name         of the counts in the query's progress
  * @param horizons     when versions of an example are emitted, and which, as in [[io.tailrace.label.JoinOptions]];
  *                     the final one is emitted when the longest of the labels' windows has closed
  * @param idleTimeout   the idle time of the query after which buffered examples are flushed
  * @param amendFor     the time after the end of its longest window during which an example may be amended, as in
  *                     [[io.tailrace.label.JoinOptions]]
  * @param orphans      true emits events that no example has, as in [[io.tailrace.label.JoinOptions]]
  * @param onStall      the treatment of streams of labels and features that have no policy of their own
  * @param stallAfter   the idle time of those that have no time of their own
  */
final case class ExampleOptions(
    time: String,
    onLate: String = "drop",
    releaseEvery: Option[TimeSpan] = None,
    sample: Option[ExampleSample] = None,
    name: String = ExampleOptions.Name,
    horizons: Seq[TimeSpan] = Nil,
    emit: String = Emit.All.name,
    idleTimeout: Option[TimeSpan] = None,
    amendFor: Option[TimeSpan] = None,
    orphans: Boolean = false,
    onStall: String = Policy.Pause.name,
    stallAfter: Option[TimeSpan] = None
) {

  /** True if rows are emitted that are no examples, or no new ones, and a column says which. */
  private[examples] def hasMarks: Boolean = onLate == Policy.Mark.name || amendFor.nonEmpty || orphans

  /** The policy of a stream.
    *
    * @param own      that the user has set for it, and `ownAfter` the idle time
    * @param fallback in place of a policy of all streams that this one can't have
    */
  private[examples] def stallOf(arguments: Arguments, own: Option[String], ownAfter: Option[TimeSpan])(
      fallback: Policy => Policy
  ): OnStall = {
    val after = ownAfter.orElse(stallAfter)
    val policy = own.fold(
      fallback(OnStall.policy(ExampleOptions.arguments, "on_stall", onStall, after))
    )(OnStall.policy(arguments, "on_stall", _, after))
    OnStall(policy, OnStall.afterMs(arguments, after))
  }
}

/** A label: a stream of events, and the choice of those that an impression gets.
  *
  * @param name       of its column
  * @param time       timestamp column of the label's stream, with a watermark if it streams
  * @param on         pairs of key columns (impressions, label)
  * @param where      the condition of its events, in SQL; none: all rows. Labels of one DataFrame read it once
  * @param since      impressions before it have null in the label's column
  * @param attribution to which of several impressions an event is credited, see [[Attribution]]; none: to each
  *                   in whose window it is
  * @param `match`    as in [[io.tailrace.label.JoinOptions]], and likewise the others
  * @param onStall    "pause", "exclude" or "fail": the treatment of its stream when it is idle while others aren't; none:
  *                   that of all streams
  * @param stallAfter the idle time
  */
final case class ExampleLabel(
    name: String,
    time: String,
    on: Seq[(String, String)],
    after: TimeSpan,
    before: TimeSpan = "0 seconds",
    `match`: String = "all",
    maxMatches: Option[Int] = None,
    where: Option[String] = None,
    since: Option[Column] = None,
    attribution: Option[ExampleAttribution] = None,
    onStall: Option[String] = None,
    stallAfter: Option[TimeSpan] = None
) {

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[examples] def stall(options: ExampleOptions): OnStall = {
    val one = alone(options)
    val stall = options.stallOf(one.arguments, onStall, stallAfter)(identity)
    // The horizons are those of all labels.
    if (stall.policy == Policy.Exclude)
      one.copy(horizons = options.horizons).checkExcludes("on_stall", stall.policy.name)
    stall
  }

  /** In errors. */
  private[examples] def call: String = s"tailrace.examples, label '$name'"

  /** The join of this label alone. */
  private[examples] def alone(options: ExampleOptions): JoinOptions =
    JoinOptions(
      leftTime = options.time,
      rightTime = time,
      after = after,
      before = before,
      into = name,
      `match` = `match`,
      maxMatches = maxMatches,
      onLate = options.onLate,
      releaseEvery = options.releaseEvery,
      idleTimeout = options.idleTimeout,
      call = call,
      words = SideWords.ofExamples("the impressions", s"label '$name'")
    )
}

object ExampleLabel {
  private[tailrace] def of(document: CallDocument): ExampleLabel = ExampleLabel(
    name = document("name").text,
    time = document("time").text,
    on = document("on").pairs,
    after = document("after").duration,
    before = document("before").duration,
    `match` = document("match").text,
    maxMatches = document.get("max_matches").map(_.int),
    where = document.get("where").map(_.text),
    since = document.get("since").map(_.column),
    attribution = document.get("attribution").map(one => ExampleAttribution.of(one.document)),
    onStall = document.get("on_stall").map(_.text),
    stallAfter = document.get("stall_after").map(_.duration)
  )
}

/** The attribution of a label, see [[Attribution]].
  *
  * @param kind     "last_touch", "first_touch", "linear", "time_decay" or "position"
  * @param halfLife of a "time_decay": a touch weighs half as much as one that is nearer to the event by this
  * @param weights  of a "position": of the first touch, of those between, of the last one
  */
final case class ExampleAttribution(
    kind: String,
    halfLife: Option[TimeSpan] = None,
    weights: Seq[BigDecimal] = Nil
) {
  import ExampleAttribution._

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[examples] def settings(arguments: Arguments): Attribution = {
    def wrong(allowed: String) = arguments.invalid("attribution", this, allowed)
    (kind, halfLife, weights) match {
      case ("last_touch", None, Seq()) => Attribution.LastTouch
      case ("first_touch", None, Seq()) => Attribution.FirstTouch
      case ("linear", None, Seq()) => Attribution.Linear
      case ("time_decay", Some(length), Seq()) =>
        val micros = length.micros.filter(_ > 0)
        Attribution.TimeDecay(
          micros.getOrElse(throw wrong("time_decay of a duration above zero, such as 1 hour"))
        )
      case ("position", None, _) =>
        weights.map(_.toDouble) match {
          case Seq(first, middle, last) if isWhole(first, middle, last) =>
            Attribution.Position(first, middle, last)
          case _ => throw wrong("position of three weights of 0 or more that sum to 1")
        }
      case _ => throw wrong("last_touch, first_touch, linear, time_decay or position")
    }
  }

  /** In `tailrace-join.json`: a checkpoint is bound to this text. */
  private[examples] def stored: String = text(_.stored)

  /** In errors. */
  override def toString: String = text(_.toString)

  private def text(length: TimeSpan => String): String =
    (Seq(kind) ++ halfLife.map(length) ++ weights.map(digits)).mkString(" ")
}

object ExampleAttribution {
  private[examples] def of(document: CallDocument): ExampleAttribution = ExampleAttribution(
    kind = document("kind").text,
    halfLife = document.get("half_life").map(_.duration),
    weights = document.get("weights").toSeq.flatMap(_.list.map(_.decimal))
  )

  /** Weights such as 0.7, 0.2 and 0.1 sum to 1 as people write them, and not as doubles. */
  private def isWhole(weights: Double*): Boolean =
    weights.forall(_ >= 0) && Math.abs(weights.sum - 1.0) < 1e-9

  /** A weight in Python's words, which checkpoints have: 0.4, 1.0, 5e-05. */
  private def digits(weight: BigDecimal): String = {
    val short = weight.bigDecimal.stripTrailingZeros
    val exponent = short.precision - short.scale - 1
    if (weight == 0) "0.0"
    else if (exponent < -4 && weight > 0) {
      val unscaled = short.unscaledValue.toString
      val fraction = if (unscaled.length == 1) "" else s".${unscaled.drop(1)}"
      f"${unscaled.head}$fraction%se-${-exponent}%02d"
    } else if (short.scale <= 0) s"${short.toPlainString}.0"
    else short.toPlainString
  }
}

/** Features of an example: the newest row of a stream at its time, see [[io.tailrace.asof.AsOfOptions]].
  *
  * @param name of their column
  * @param time timestamp column of their stream
  * @param on   pairs of key columns (impressions, features)
  * @param onStall "pause" or "fail": the treatment of their stream when it is idle while others aren't; none: that of all
  *             streams, but "exclude"
  * @param stallAfter the idle time
  */
final case class ExampleFeatures(
    name: String,
    time: String,
    on: Seq[(String, String)],
    maxAge: Option[TimeSpan] = None,
    delay: TimeSpan = "0 seconds",
    onStall: Option[String] = None,
    stallAfter: Option[TimeSpan] = None
) {

  /** In errors. */
  private def call: String = s"tailrace.examples, features '$name'"

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[examples] def stall(options: ExampleOptions): OnStall = {
    if (onStall.contains(Policy.Exclude.name)) throw ExampleErrors.excludesFeatures(name)
    options.stallOf(new Arguments(call), onStall, stallAfter) {
      case Policy.Exclude => Policy.Pause
      case other => other
    }
  }

  private[tailrace] def asOf(options: ExampleOptions): AsOfOptions =
    // Late rows that are marked, and amended ones, are emitted by the join with times before its watermark.
    AsOfOptions(
      options.time,
      time,
      name,
      maxAge,
      delay,
      options.idleTimeout,
      passesLate = options.hasMarks,
      call = call,
      words = SideWords.ofExamples("the examples", s"features '$name'")
    )
}

object ExampleFeatures {
  private[tailrace] def of(document: CallDocument): ExampleFeatures = ExampleFeatures(
    name = document("name").text,
    time = document("time").text,
    on = document("on").pairs,
    maxAge = document.get("max_age").map(_.duration),
    delay = document("delay").duration,
    onStall = document.get("on_stall").map(_.text),
    stallAfter = document.get("stall_after").map(_.duration)
  )
}

/** The sample of the examples that is emitted.
  *
  * @param rates  predicates over the finished row in SQL, each with the share of its rows to keep, 0 to 1. The
  *               first one that holds counts; a row for which none holds is emitted
  * @param seed   of the hash of key and time that chooses rows
  * @param weight name of a column with 1 / rate
  * @param ratio  in the place of rates: names of labels, each with the number of negatives to keep per example that has an
  *               event of it. Negatives are the examples that have an event of none of these labels
  * @param over   of ratios: the length of event time whose examples decide the rate; none: 1 hour
  * @param start  of ratios: the rate of a partition of a stream that hasn't emitted an example; none: 1
  */
final case class ExampleSample(
    rates: Seq[(String, Double)],
    seed: Long,
    weight: String = "weight",
    ratio: Seq[(String, Double)] = Nil,
    over: Option[TimeSpan] = None,
    start: Option[Double] = None
)

object ExampleSample {
  private[examples] def of(document: CallDocument): ExampleSample = ExampleSample(
    rates = document("rates").list.map { one =>
      val rate = one.document
      rate("predicate").text -> rate("rate").double
    },
    seed = document("seed").long,
    weight = document("weight").text,
    ratio = document.get("ratio").toSeq.flatMap(_.list).map { one =>
      val ratio = one.document
      ratio("label").text -> ratio("ratio").double
    },
    over = document.get("over").map(_.duration),
    start = document.get("start").map(_.double)
  )
}

object ExampleOptions {

  private[tailrace] def of(document: CallDocument): ExampleOptions = ExampleOptions(
    time = document("time").text,
    onLate = document("on_late").text,
    releaseEvery = document.get("release_every").map(_.duration),
    sample = document.get("sample").map(one => ExampleSample.of(one.document)),
    name = document("name").text,
    horizons = document.get("horizons").toSeq.flatMap(_.list.map(_.duration)),
    emit = document.get("emit").fold(Emit.All.name)(_.text),
    idleTimeout = document.get("idle_timeout").map(_.duration),
    amendFor = document.get("amend_for").map(_.duration),
    orphans = document("orphans").flag,
    onStall = document("on_stall").text,
    stallAfter = document.get("stall_after").map(_.duration)
  )

  private[examples] val Name = "examples"
  private[tailrace] val arguments = new Arguments("tailrace.examples")
}

/** The errors of `tailrace.examples`. */
private[tailrace] object ExampleErrors {

  def noLabel(): TailraceAnalysisException = refuse("TAILRACE_EXAMPLES_NO_LABEL")

  /** @param argument of `call`, which has the condition
    * @param columns  that it may name
    */
  def condition(
      call: String,
      argument: String,
      condition: String,
      columns: Seq[String],
      cause: AnalysisException
  ): TailraceAnalysisException = refuse(
    "TAILRACE_EXAMPLES_CONDITION",
    "call" -> call,
    "argument" -> argument,
    "condition" -> condition,
    "columns" -> columns.mkString(", "),
    "reason" -> cause.getMessage.linesIterator.find(_.nonEmpty).getOrElse("")
  )

  def excludesFeatures(features: String): TailraceAnalysisException =
    refuse("TAILRACE_EXAMPLES_EXCLUDES_FEATURES", "features" -> features)

  /** @param label with an attribution */
  def impressionsChange(label: String): TailraceAnalysisException =
    refuse("TAILRACE_EXAMPLES_IMPRESSIONS_CHANGE", "label" -> label)

  def nameExists(name: String): TailraceAnalysisException =
    refuse("TAILRACE_EXAMPLES_NAME_EXISTS", "name" -> name)

  /** @param labels each with the columns of the impressions that are its keys */
  def noCommonKey(labels: Seq[(String, Seq[String])]): TailraceAnalysisException =
    refuse(
      "TAILRACE_EXAMPLES_NO_COMMON_KEY",
      "labels" -> labels.map { case (name, keys) => s"'$name' by ${keys.mkString(", ")}" }.mkString("; ")
    )
}

/** Conditions that users write in SQL. */
private[examples] object Conditions {

  /** Whether the value depends on the row alone. Otherwise a micro-batch that is repeated, and a batch job of another day,
    * would choose other rows.
    */
  def isFixed(condition: Expression): Boolean =
    condition.deterministic && !condition.containsPattern(TreePattern.CURRENT_LIKE)

  /** Returns the result of `body` for a condition. Spark's error names neither the call nor the condition.
    *
    * @param argument of `call`
    * @param columns  that the condition may name
    * @throws io.tailrace.common.TailraceAnalysisException if it can't be read
    */
  def read[T](call: String, argument: String, condition: String, columns: Seq[String])(body: => T): T =
    try body
    catch {
      case ours: TailraceAnalysisException => throw ours
      case e: AnalysisException =>
        throw ExampleErrors.condition(call, argument, condition, columns, e)
    }
}

/** Distributes the credit of an event over several impressions. The touches of an event are the impressions in
  * whose window it is, in the order of time, and of a hash of their content where times are equal.
  *
  * {{{
  *   impressions of user 1   12:00   12:10   12:30          an order at 12:40, after = 1 hour
  *   last touch                                1
  *   first touch               1
  *   linear                  0.333333333 0.333333333 0.333333334
  * }}}
  *
  * Credits are whole numbers of billionths. The rounding remainder goes to the last touch, so they sum to 1.
  */
sealed trait Attribution extends Serializable {

  /** True if events carry their credit. Otherwise an event belongs to one impression, with the whole credit. */
  def isShared: Boolean
}

object Attribution {
  val Whole = 1000000000L

  /** @param share in billionths */
  def decimal(share: Long): Decimal = Decimal(share, 10, 9)

  case object LastTouch extends Attribution {
    override def isShared: Boolean = false
  }

  case object FirstTouch extends Attribution {
    override def isShared: Boolean = false
  }

  /** Each touch has a share by its weight. There are `n` touches; touch `i` is `ago(i)` microseconds from the event. */
  sealed trait Shared extends Attribution {
    override def isShared: Boolean = true

    /** @return zero or more; the weights of all touches aren't all zero */
    protected def weight(n: Int, touch: Int, ago: Int => Long): Double

    /** The weights of all touches. */
    private[examples] def sum(n: Int, ago: Int => Long): Double = {
      var sum = 0.0
      var i = 0
      while (i < n) {
        sum += weight(n, i, ago)
        i += 1
      }
      sum
    }

    /** The credit of the last touch, in billionths, including the rounding remainder. */
    private[examples] def last(sum: Double, n: Int, ago: Int => Long): Long = {
      var last = Whole
      var i = 0
      while (i < n - 1) {
        last -= rounded(weight(n, i, ago), sum)
        i += 1
      }
      last
    }

    /** The credit of one of the touches, in billionths. */
    private[examples] def share(sum: Double, last: Long, n: Int, mine: Int, ago: Int => Long): Long =
      if (mine < n - 1) rounded(weight(n, mine, ago), sum) else last

    private def rounded(weight: Double, sum: Double): Long = (weight / sum * Whole).toLong
  }

  case object Linear extends Shared {
    override protected def weight(n: Int, touch: Int, ago: Int => Long): Double = 1.0
    override private[examples] def sum(n: Int, ago: Int => Long): Double = n.toDouble
    override private[examples] def last(sum: Double, n: Int, ago: Int => Long): Long =
      Whole - Whole / n * (n - 1)
    override private[examples] def share(sum: Double, last: Long, n: Int, mine: Int, ago: Int => Long): Long =
      if (mine < n - 1) Whole / n else last
  }

  /** A touch weighs half as much as one that is nearer to the event by `halfLife` microseconds. */
  final case class TimeDecay(halfLife: Long) extends Shared {
    // Relative to the nearest touch: otherwise all weights of a long window would be zero. Same bits on each machine.
    override protected def weight(n: Int, touch: Int, ago: Int => Long): Double = {
      val nearest = Math.min(ago(0), ago(n - 1))
      StrictMath.pow(2.0, -(ago(touch) - nearest).toDouble / halfLife)
    }
  }

  /** The first and the last touch have a fixed weight, and those between them share one. */
  final case class Position(first: Double, middle: Double, last: Double) extends Shared {
    override protected def weight(n: Int, touch: Int, ago: Int => Long): Double =
      if (n == 1) 1.0
      else if (n == 2 && first + last == 0) 1.0
      else if (touch == 0) first
      else if (touch == n - 1) last
      else middle / (n - 2)
  }
}
