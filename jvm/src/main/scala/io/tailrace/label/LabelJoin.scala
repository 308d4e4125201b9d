package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}

import io.tailrace.join.{JoinColumns, OneEventTime}
import io.tailrace.plan.StreamJoin

/** `tailrace.join` as the user wrote it, resolved. Batch and streaming alike; [[LabelJoinStrategy]] tells them apart.
  *
  * @param paired with how = "inner", the right columns but the keys, under ids of their own: the sides may have ids in common
  * @param added  columns of its own: the group, the truncation flag, the mark of late rows, as far as asked for
  */
case class LabelJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    leftTime: Attribute,
    rightTime: Attribute,
    settings: JoinSettings,
    paired: Seq[Attribute],
    added: Seq[Attribute]
) extends StreamJoin {
  override def operator: String = "tailrace.join"
  override def onlyAppends: Boolean = true
  override def dropsRows: Boolean = !settings.isGrouped
  override def holdsRows: Boolean = settings.isGrouped
  override def description: String =
    if (settings.isGrouped) "a grouped tailrace.join" else "an inner tailrace.join"

  override def rightTimes: Seq[(Attribute, Attribute)] =
    paired.find(_.metadata.contains(EventTimeWatermark.delayKey)).map(_ -> rightTime).toSeq

  override def output: Seq[Attribute] = {
    val one = OneEventTime.of(left.output, leftTime)
    // A late right row comes out with nulls on the left.
    val lefts = if (settings.marksLate) one.map(_.withNullability(true)) else one
    lefts ++ paired ++ added
  }

  def columns: JoinColumns =
    JoinColumns(left.output, right.output, leftKeys, rightKeys, leftTime, rightTime, added)

  // All columns of both sides are needed: they are the rows that come out. Without this the optimizer would prune what
  // no expression of this node mentions.
  @transient override lazy val references: AttributeSet = left.outputSet ++ right.outputSet

  override def producedAttributes: AttributeSet = AttributeSet(paired ++ added)

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): LabelJoin =
    copy(left = newLeft, right = newRight)
}

object LabelJoin {

  /** The right columns of pairs.
    *
    * @param payload of the right side, all but the keys
    */
  def paired(payload: Seq[Attribute], rightTime: Attribute, settings: JoinSettings): Seq[Attribute] =
    if (settings.isGrouped) Nil
    else
      OneEventTime.of(payload, rightTime).map { a =>
        AttributeReference(a.name, a.dataType, a.nullable || settings.marksLate, a.metadata)()
      }
}
