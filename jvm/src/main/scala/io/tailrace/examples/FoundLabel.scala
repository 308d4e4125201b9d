package io.tailrace.examples

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan}
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.DataType

import io.tailrace.join.{JoinColumns, WiderKeys}
import io.tailrace.label.{JoinSettings, JoinWindow}

/** A label as a user has given it.
  *
  * @param where the condition, by columns of the plan
  */
private[tailrace] final case class GivenLabel(
    plan: LogicalPlan,
    label: ExampleLabel,
    where: Option[Expression]
)

private[tailrace] object GivenLabel {
  def of(frame: Dataset[_], label: ExampleLabel): GivenLabel = {
    val plan = SparkPlans.analyzed(frame)
    label.where.fold(GivenLabel(plan, label, None)) { where =>
      SparkPlans.analyzed(frame.where(where)) match {
        case Filter(condition, child) if child eq plan => GivenLabel(plan, label, Some(condition))
        // Spark needs more than a filter for it: a plan of its own.
        case filtered => GivenLabel(filtered, label, None)
      }
    }
  }
}

/** A label with its columns.
  *
  * @param on       pairs of key columns (impressions, label)
  * @param where    which rows of the plan are events of the label; none: all
  * @param settings of the join of this label alone
  */
private[examples] final case class FoundLabel(
    label: ExampleLabel,
    plan: LogicalPlan,
    on: Seq[(Attribute, Attribute)],
    time: Attribute,
    where: Option[Expression],
    settings: JoinSettings,
    attribution: Option[Attribution]
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

  /** The window that the join needs for this label. */
  def joinWindow: JoinWindow = if (isAttributed) settings.window.withRivals else settings.window

  /** @param i its number among the labels */
  def rule(i: Int, common: Seq[Attribute]): LabelRule =
    LabelRule(
      LabelUnion.FirstLabel + i,
      settings.window,
      settings.policy,
      settings.maxMatches.getOrElse(Int.MaxValue),
      Option.when(moreKeys(common).nonEmpty)(LabelUnion.KeysPlace),
      attribution
    )
}
