package io.tailrace.examples

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, Dataset}

import io.tailrace.common.EventTimes
import io.tailrace.join.{JoinColumns, WiderKeys}
import io.tailrace.label.{JoinWindow, MatchPolicy, OneGroup}

/** A label as a user has given it.
  *
  * @param where the condition, by columns of the plan
  */
private[tailrace] final case class GivenLabel(
    frame: Dataset[_],
    plan: LogicalPlan,
    label: ExampleLabel,
    where: Option[Expression]
) {

  /** A literal as a time of the session, in microseconds; none if it can't be read as one. */
  def micros(literal: Column, kind: DataType): Option[Long] =
    SparkPlans.analyzed(frame.select(literal.try_cast(kind))) match {
      case Project(Seq(Alias(time, _)), _) => Option(time.eval()).map(_.asInstanceOf[Long])
      case other => throw new IllegalStateException(s"not a literal: $other")
    }
}

private[tailrace] object GivenLabel {
  def of(frame: Dataset[_], label: ExampleLabel): GivenLabel = {
    val plan = SparkPlans.analyzed(frame)
    label.where.fold(GivenLabel(frame, plan, label, None)) { where =>
      Conditions.read(label.call, "where", where, plan.output.map(_.name))(
        SparkPlans.analyzed(frame.where(where))
      ) match {
        case Filter(condition, child) if child eq plan => GivenLabel(frame, plan, label, Some(condition))
        // Spark needs more than a filter for it: a plan of its own.
        case filtered => GivenLabel(frame, filtered, label, None)
      }
    }
  }
}

/** A label with its columns.
  *
  * @param on       pairs of key columns (impressions, label)
  * @param where    which rows of the plan are events of the label; none: all
  * @param window   of this label
  * @param form     of its column, without its attribution
  * @param since    microseconds
  */
private[examples] final case class FoundLabel(
    label: ExampleLabel,
    plan: LogicalPlan,
    on: Seq[(Attribute, Attribute)],
    time: Attribute,
    where: Option[Expression],
    window: JoinWindow,
    form: OneGroup,
    attribution: Option[Attribution],
    since: Option[Long]
) {
  def isAttributed: Boolean = attribution.nonEmpty

  /** What comes out of a row. */
  def row: Seq[Attribute] = JoinColumns.payload(plan.output, on.map(_._2))

  /** The key columns that the join hasn't: pairs, each with the type in which both sides are compared. */
  def moreKeys(common: Seq[Attribute]): Seq[(Attribute, Attribute, DataType)] =
    on.filterNot { case (left, _) => common.exists(_.exprId == left.exprId) }.map { case (left, right) =>
      (left, right, WiderKeys.common(left.dataType, right.dataType).getOrElse(left.dataType))
    }

  /** The label's column for a key column of the impressions. */
  def key(left: Attribute): Attribute = on.collectFirst { case (l, r) if l.exprId == left.exprId => r }.get

  /** What a checkpoint is bound to: keys and touches that are in the state say nothing under other ones. */
  def bound(common: Seq[Attribute]): String = {
    val more = moreKeys(common).map { case (left, _, to) => s"${left.name} ${to.sql}" }
    val keys = if (more.isEmpty) "no further keys" else s"further keys ${more.mkString(", ")}"
    s"$keys, ${label.attribution.fold("not attributed")(name => s"attribution $name")}"
  }

  /** The same of how events are shared: emitted impressions have their share by it.
    *
    * @return none without an attribution
    */
  def boundCredits: Option[String] = Option.when(isAttributed) {
    val from = since.fold("")(micros => s", since ${EventTimes.iso(micros)}")
    s"before ${window.before} microseconds, after ${window.after} microseconds$from"
  }

  /** The window that the join needs for this label. */
  def joinWindow: JoinWindow = if (isAttributed) window.withRivals else window

  /** The stream that it is of: those with the same watermark are one. */
  def stream: Set[java.util.UUID] = plan.collect { case w: EventTimeWatermark => w.nodeId }.toSet

  /** @param i      its number among the labels
    * @param keys   of the join
    * @param beside the other labels of its stream
    */
  def rule(i: Int, keys: Seq[Attribute], beside: Set[String]): LabelRule =
    LabelRule(
      label.name,
      LabelUnion.FirstLabel + i,
      DataTypeUtils.fromAttributes(row),
      window,
      form.policy,
      form.maxMatches,
      moreKeys(keys).map { case (left, _, to) => left.name -> to },
      attribution,
      since,
      beside
    )
}

/** Which elements of a group belong to one label, and the label's columns.
  *
  * @param name        of its column
  * @param place       of the label's struct in an element
  * @param row         what comes out of an event
  * @param window      of the label, inside that of the join
  * @param maxMatches  if there is a cap, a column more says whether it has cut the label
  * @param keys        the impressions' columns that are keys of this label and not of the join, each with the type in
  *                    which both sides are compared
  * @param attribution to which impression an event is credited; none: to each
  * @param since       impressions before it, in microseconds, have null in the label's column
  * @param beside      the other labels of its stream
  */
private[examples] final case class LabelRule(
    name: String,
    place: Int,
    row: StructType,
    window: JoinWindow,
    policy: MatchPolicy,
    maxMatches: Option[Int],
    keys: Seq[(String, DataType)],
    attribution: Option[Attribution],
    since: Option[Long],
    beside: Set[String]
) {

  /** The window that the join needs for this label. */
  def joinWindow: JoinWindow = if (attribution.isEmpty) window else window.withRivals

  /** In the struct, of the hash of a touch. */
  def touchPlace: Int = (if (keys.isEmpty) LabelUnion.RowPlace else LabelUnion.KeysPlace) + 1

  /** The fields of the struct. */
  def structSize: Int = touchPlace + (if (attribution.isEmpty) 0 else 1)

  def isShared: Boolean = attribution.exists(_.isShared)

  def columnType: ArrayType =
    ArrayType(StructType(row ++ Option.when(isShared)(LabelRule.Credit)), containsNull = false)

  def fields: Seq[StructField] =
    StructField(name, columnType, nullable = since.nonEmpty) +:
      maxMatches.toSeq.map(_ => StructField(LabelRule.truncated(name), BooleanType, nullable = false))

  /** In `explain`, by the names of the arguments. */
  def text: String = {
    val cap = maxMatches.fold("")(n => s" max_matches=$n")
    s"$name($window match=${policy.name}$cap${attribution.fold("")(a => s" attribution=$a")})"
  }
}

private[examples] object LabelRule {

  /** What an event has behind its columns, if its credit is shared. */
  val Credit: StructField = StructField("credit", DecimalType(10, 9), nullable = false)

  def truncated(label: String): String = s"${label}_truncated"
}
