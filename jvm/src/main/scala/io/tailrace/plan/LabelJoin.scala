package io.tailrace.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan}

import io.tailrace.join.{JoinColumns, JoinSettings}

/** `tailrace.join` as the user wrote it, resolved. Batch and streaming alike; [[LabelJoinStrategy]] tells them apart.
  *
  * @param added columns of its own: the group, the truncation flag, the late flag, as far as asked for
  */
case class LabelJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    leftTime: Attribute,
    rightTime: Attribute,
    settings: JoinSettings,
    added: Seq[Attribute]
) extends BinaryNode {

  override def output: Seq[Attribute] = LabelJoin.output(columns, settings)

  def columns: JoinColumns =
    JoinColumns(left.output, right.output, leftKeys, rightKeys, leftTime, rightTime, added)

  // All columns of both sides are needed: they are the rows that come out. Without this the optimizer would prune what
  // no expression of this node mentions.
  @transient override lazy val references: AttributeSet = left.outputSet ++ right.outputSet

  override def producedAttributes: AttributeSet = AttributeSet(added)

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): LabelJoin =
    copy(left = newLeft, right = newRight)
}

object LabelJoin {
  def output(columns: JoinColumns, settings: JoinSettings): Seq[Attribute] = {
    // A late right row comes out with nulls on the left.
    val left = if (settings.emitLate) columns.left.map(_.withNullability(true)) else columns.left
    if (settings.isGrouped) left ++ columns.added
    else {
      val right = if (settings.emitLate) columns.payload.map(_.withNullability(true)) else columns.payload
      left ++ right ++ columns.added
    }
  }
}
