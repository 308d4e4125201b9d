package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types._

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common._
import io.tailrace.explain.LabelStreamFacts
import io.tailrace.plan.Columns
import io.tailrace.state.KeyEncoder

/** The two sides of a join, and the columns of them that arguments name.
  *
  * @param sameName the session's rule for names, case-insensitive by default
  * @param words    the user's names of the sides
  */
private[tailrace] final class JoinSides(
    arguments: Arguments,
    val left: LogicalPlan,
    rightAsGiven: LogicalPlan,
    sameName: (String, String) => Boolean,
    words: SideWords = SideWords.OfJoin
) {

  /** Has columns with new ids if both sides share some: one DataFrame was made from the other. */
  val right: LogicalPlan =
    if (left.outputSet.intersect(rightAsGiven.outputSet).isEmpty) rightAsGiven
    else {
      val renewed = rightAsGiven.output.map(a => Alias(a, a.name)(explicitMetadata = Some(a.metadata)))
      Project(renewed, rightAsGiven)
    }
  private val named = Side.values.map { side =>
    side -> new Columns(arguments, plan(side).output, sameName, words.frame(side))
  }.toMap

  def plan(side: Side): LogicalPlan = side.of(left, right)

  def columns(side: Side): Columns = named(side)

  /** Refuses a stream beside a batch DataFrame. */
  def checkAreAlike(): Unit = if (left.isStreaming != right.isStreaming) {
    if (left.isStreaming) throw JoinErrors.mixedBatchAndStream(stream = Side.Left, batch = Side.Right)
    else throw JoinErrors.mixedBatchAndStream(stream = Side.Right, batch = Side.Left)
  }

  /** Refuses a stream without a watermark on its event time. */
  def checkWatermarks(leftTime: Attribute, rightTime: Attribute): Unit = {
    checkWatermark(Side.Left, leftTime)
    checkWatermark(Side.Right, rightTime)
  }

  private def checkWatermark(side: Side, column: Attribute): Unit = {
    val plan = this.plan(side)
    val key = EventTimeWatermark.delayKey
    // Spark supports no watermarks on them.
    if (plan.isStreaming && column.dataType == TimestampNTZType)
      throw columns(side).wrongType(words.time(side), column, "TIMESTAMP")
    if (plan.isStreaming && !column.metadata.contains(key)) {
      val other = plan.output.find(_.metadata.contains(key)).map(_.name)
      throw words.watermarkMissing(side, column.name, other)
    }
  }

  /** Makes a join of the two sides. Where a key has two numeric types, both sides are cast to the wider one
    * before the join, and left columns are cast back after it.
    *
    * @param rightAlone true if right rows are emitted without a left one. Their keys may not fit into the narrow
    *                   type, so left keys stay wide
    */
  def withWiderKeys(on: Seq[(String, String)], rightAlone: Boolean)(
      join: JoinSides => LogicalPlan
  ): LogicalPlan = {
    val wider = on.flatMap { case (l, r) =>
      val (left, right) = (columns(Side.Left).find("on", l), columns(Side.Right).find("on", r))
      WiderKeys.common(left.dataType, right.dataType).map(to => (left, right, to))
    }
    // A column that several keys name keeps its type, and is checked as it is.
    def isNamedAgain(keys: Seq[Attribute]) = keys.map(_.exprId).distinct.size < keys.size
    if (wider.isEmpty || isNamedAgain(wider.map(_._1)) || isNamedAgain(wider.map(_._2))) join(this)
    else {
      def changed(keys: Seq[(Attribute, DataType)]) =
        keys.collect { case (key, to) if key.dataType != to => key.exprId -> to }.toMap
      val lefts = changed(wider.map { case (l, _, to) => l -> to })
      val rights = changed(wider.map { case (_, r, to) => r -> to })
      val (wideLeft, wideRight) = (WiderKeys.cast(left, lefts), WiderKeys.cast(right, rights))
      val joined = join(new JoinSides(arguments, wideLeft, wideRight, sameName, words))
      val narrow = wider.collect { case (l, _, to) if l.dataType != to => l.name -> l.dataType }.toMap
      if (rightAlone) joined
      else WiderKeys.cast(joined, joined.output.flatMap(a => narrow.get(a.name).map(a.exprId -> _)).toMap)
    }
  }

  /** The key columns of the two sides, of equal and orderable types. */
  def keys(on: Seq[(String, String)]): (Seq[Attribute], Seq[Attribute]) = {
    if (on.isEmpty) throw JoinErrors.keysMissing()
    val leftKeys = on.map(pair => columns(Side.Left).find("on", pair._1))
    val rightKeys = on.map(pair => columns(Side.Right).find("on", pair._2))
    leftKeys.zip(rightKeys).foreach { case (l, r) => checkKey(l, r) }
    (leftKeys, rightKeys)
  }

  private def checkKey(l: Attribute, r: Attribute): Unit = {
    Seq(l, r).foreach { a =>
      KeyEncoder.refusal(a.dataType).foreach {
        case KeyEncoder.Collated => throw JoinErrors.keyCollated(a.name, a.dataType.sql)
        case KeyEncoder.NotOrderable => throw JoinErrors.keyTypeUnsupported(a.name, a.dataType.sql)
      }
    }
    // Nullability inside a type doesn't change its values.
    if (!DataTypeUtils.sameType(l.dataType, r.dataType)) throw JoinErrors.keyTypesDiffer(l, r)
  }

  /** The emitted columns of a right row. In a stream's state it may lack some. */
  def payload(rightKeys: Seq[Attribute]): Seq[Attribute] = {
    val read = JoinColumns.payload(right.output, rightKeys)
    if (right.isStreaming) read.map(OneEventTime.lacking) else read
  }

  /** The time columns of the two sides, timestamps of one type. */
  def times(leftName: String, rightName: String): (Attribute, Attribute) = {
    val leftTime = time(Side.Left, leftName)
    val rightTime = time(Side.Right, rightName)
    if (leftTime.dataType != rightTime.dataType) throw JoinErrors.timeTypesDiffer(leftTime, rightTime)
    (leftTime, rightTime)
  }

  private def time(side: Side, name: String): Attribute = {
    val argument = words.time(side)
    val found = columns(side).find(argument, name)
    found.dataType match {
      case TimestampType | TimestampNTZType => found
      case _ => throw columns(side).wrongType(argument, found, "TIMESTAMP")
    }
  }
}

/** The user's names of the sides of a join and of their arguments, in errors.
  *
  * @param left  its DataFrame; `right` likewise
  * @param times the arguments with the event times of the left and the right side
  * @param into  the argument with the name of the column that the join adds
  */
final case class SideWords(
    left: String,
    right: String,
    times: (String, String),
    into: String,
    after: String
) {
  private[join] def frame(side: Side): String = side.of(left, right)
  private[join] def time(side: Side): String = side.of(times._1, times._2)

  private[join] def watermarkMissing(
      side: Side,
      column: String,
      other: Option[String]
  ): TailraceAnalysisException =
    if (this == SideWords.OfJoin) JoinErrors.watermarkMissing(side, column, other)
    else JoinErrors.watermarkMissingOf(frame(side), column, other)
}

object SideWords {
  val OfJoin: SideWords =
    SideWords("the left DataFrame", "the right DataFrame", ("left_time", "right_time"), "into", "`after`")

  /** @param left  the impressions, as they come to the join
    * @param right "label 'click'"
    */
  def ofExamples(left: String, right: String): SideWords =
    SideWords(left, s"the DataFrame of $right", ("time", "time"), "name", "the longest `after` of a label")
}

/** Keys of two numeric types are compared in a type that has all values of both, as in Spark's own joins.
  * Where there is none, both stay as they are and are refused later: a BIGINT as a DOUBLE is another number.
  */
private[tailrace] object WiderKeys {
  private val IntegralDigits: Map[DataType, Int] =
    Map(ByteType -> 3, ShortType -> 5, IntegerType -> 10, LongType -> 19)

  /** @return none if no such type exists, or if the types are the same */
  def common(one: DataType, other: DataType): Option[DataType] = (one, other) match {
    case (a, b) if a == b => None
    case (a, b) if Seq(a, b).forall(IntegralDigits.contains) => Some(Seq(a, b).maxBy(IntegralDigits))
    case (FloatType, DoubleType) | (DoubleType, FloatType) => Some(DoubleType)
    case (a: DecimalType, b) => decimal(b).flatMap(wider(a, _))
    case (a, b: DecimalType) => decimal(a).flatMap(wider(_, b))
    case _ => None
  }

  private def decimal(of: DataType): Option[DecimalType] = of match {
    case d: DecimalType => Some(d)
    case integral => IntegralDigits.get(integral).map(DecimalType(_, 0))
  }

  private def wider(a: DecimalType, b: DecimalType): Option[DecimalType] = {
    val scale = Math.max(a.scale, b.scale)
    val precision = scale + Math.max(a.precision - a.scale, b.precision - b.scale)
    Option.when(precision <= DecimalType.MAX_PRECISION)(DecimalType(precision, scale))
  }

  /** The plan with some of its columns in other types, under their names and in their places. */
  def cast(plan: LogicalPlan, types: Map[ExprId, DataType]): LogicalPlan =
    if (types.isEmpty) plan
    else {
      Project(
        plan.output.map { a =>
          types.get(a.exprId).fold[NamedExpression](a)(to => Alias(Cast(a, to, ansiEnabled = true), a.name)())
        },
        plan
      )
    }
}

/** The errors of all joins. */
object JoinErrors {

  /** @param other the column of that side that does have a watermark, if one has */
  def watermarkMissing(side: Side, column: String, other: Option[String]): TailraceAnalysisException =
    watermarkMissing("TAILRACE_JOIN_WATERMARK_MISSING", "side" -> side.name, column, other)

  /** The same of a stream that isn't a side for the user.
    *
    * @param frame "the DataFrame of label 'click'"
    */
  def watermarkMissingOf(frame: String, column: String, other: Option[String]): TailraceAnalysisException =
    watermarkMissing("TAILRACE_EXAMPLES_WATERMARK_MISSING", "frame" -> frame, column, other)

  private def watermarkMissing(
      condition: String,
      stream: (String, String),
      column: String,
      other: Option[String]
  ): TailraceAnalysisException = {
    val elsewhere = other.fold("")(c => s" (its watermark is on `$c`)")
    refuse(condition, stream, "column" -> column, "other" -> elsewhere, "delay" -> "10 minutes")
  }

  def mixedBatchAndStream(stream: Side, batch: Side): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_MIXED_BATCH_AND_STREAM", "stream" -> stream.name, "batch" -> batch.name)

  def keysMissing(): TailraceAnalysisException = refuse("TAILRACE_JOIN_KEYS_MISSING")

  def keyTypesDiffer(left: Attribute, right: Attribute): TailraceAnalysisException =
    typesDiffer("TAILRACE_JOIN_KEY_TYPES_DIFFER", left, right)

  def keyTypeUnsupported(column: String, dataType: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_KEY_TYPE_UNSUPPORTED", "column" -> column, "type" -> dataType)

  def keyCollated(column: String, dataType: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_KEY_COLLATED", "column" -> column, "type" -> dataType)

  def timeTypesDiffer(left: Attribute, right: Attribute): TailraceAnalysisException =
    typesDiffer("TAILRACE_JOIN_TIME_TYPES_DIFFER", left, right)

  def optionConflict(argument: String, value: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> argument, "value" -> value)

  /** The policy of a label or of features. */
  private[tailrace] def labelStalled(stream: LabelStreamFacts): TailraceStateException =
    stalled("TAILRACE_EXAMPLES_STALLED", stream)

  /** The policy of a side of a join. */
  private[tailrace] def sideStalled(stream: LabelStreamFacts): TailraceStateException =
    stalled("TAILRACE_JOIN_STALLED", stream)

  private def stalled(condition: String, stream: LabelStreamFacts): TailraceStateException = stateError(
    condition,
    null,
    "stream" -> s"${stream.kind.words} ${stream.labels.mkString(", ")}",
    "silent" -> Durations.text(stream.idleMs * 1000),
    "watermark" -> stream.readTo.fold("no row of it has come since the query started") { time =>
      s"its watermark is ${EventTimes.iso(time)}"
    }
  )

  def watermarkShared(operator: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_WATERMARK_SHARED", "operator" -> operator)

  /** @param option that needs such batches */
  def closesInNoBatch(option: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_CLOSES_IN_NO_BATCH", "option" -> option)

  def labelEmpty(into: String): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_LABEL_EMPTY", "into" -> into)

  /** @param columns of the right side that the table lacks, or has in a type that doesn't fit */
  def initialColumns(call: String, columns: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_JOIN_INITIAL_COLUMNS", "call" -> call, "columns" -> columns.mkString(", "))

  private def typesDiffer(condition: String, left: Attribute, right: Attribute): TailraceAnalysisException =
    refuse(
      condition,
      "left" -> left.name,
      "leftType" -> left.dataType.sql,
      "right" -> right.name,
      "rightType" -> right.dataType.sql
    )
}
