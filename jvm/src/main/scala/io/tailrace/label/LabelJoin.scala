package io.tailrace.label

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.common.TailraceConf
import io.tailrace.join.{JoinNode, OneEventTime, StoredJoinExec}

/** The logical node of `tailrace.join`, for batch and streaming DataFrames. [[LabelJoinStrategy]] tells them apart.
  *
  * @param paired with how = "inner", the right columns but the keys
  * @param added  the group, the truncation flag and the mark of late rows, as far as asked for
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
) extends JoinNode {
  override def operator: String = "tailrace.join"
  override def dropsRows: Boolean = !settings.isGrouped
  override def holdsRows: Boolean = settings.isGrouped
  override def description: String =
    if (settings.isGrouped) "a grouped tailrace.join" else "an inner tailrace.join"

  /** Late right rows. */
  override def rightComesOutAlone: Boolean = settings.marksLate

  override def rightTimes: Seq[(Attribute, Attribute)] =
    paired.find(_.metadata.contains(EventTimeWatermark.delayKey)).map(_ -> rightTime).toSeq

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

/** Keeps no state: Spark plans the same node again and again. */
object LabelJoinStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    plan match {
      case join: LabelJoin if join.isStreaming =>
        val settings = join.settings.copy(strategy = strategy(join.settings))
        val stored = StoredLabelJoin(join.columns, settings)
        StoredJoinExec(stored, join.output, planLater(join.left), planLater(join.right)) :: Nil
      case join: LabelJoin =>
        LabelJoinBatchExec(
          join.columns,
          join.settings,
          join.output,
          planLater(join.left),
          planLater(join.right)
        ) :: Nil
      case _ => Nil
    }

  /** Pairs are due as soon as both rows are there: eager. Groups are due when the window has closed: lazy, which writes
    * each row once and reads it once; eager is for those who say so, because their right rows are many, mostly match
    * nothing, and would wait for the end of a long window (`adr/006`).
    */
  private def strategy(settings: JoinSettings): MatchStrategy =
    if (!settings.isGrouped) MatchStrategy.Eager
    else {
      val wish = TailraceConf.JoinStrategy.read(SparkPlans.activeSetting)
      MatchStrategy.values.find(_.name == wish).getOrElse(MatchStrategy.Lazy)
    }
}
