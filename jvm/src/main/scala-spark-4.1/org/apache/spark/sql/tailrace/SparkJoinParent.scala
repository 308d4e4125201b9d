package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.JoinType
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.streaming.OutputMode

/** Spark's stream-stream join, with the parameters that it has in later minor versions. This one has no output mode: it
  * stays as it is.
  */
abstract class SparkJoinParent(parts: JoinParts)
    extends StreamingSymmetricHashJoinExec(
      parts.leftKeys,
      parts.rightKeys,
      parts.joinType,
      parts.condition,
      parts.stateInfo,
      parts.eventTimeWatermarkForLateEvents,
      parts.eventTimeWatermarkForEviction,
      parts.stateWatermarkPredicates,
      parts.stateFormatVersion,
      parts.left,
      parts.right
    ) {

  /** The parameter that Spark's join doesn't have. */
  private val mode: Option[OutputMode] = parts.outputMode

  /** The operator of Spark's rules that call `copy`. */
  protected def made(parts: JoinParts): StreamingSymmetricHashJoinExec

  /** @param values of the parameters that Spark's join has */
  protected def whole(values: Seq[Any]): JoinParts = JoinParts.of(values :+ mode)

  override def copy(
      leftKeys: Seq[Expression],
      rightKeys: Seq[Expression],
      joinType: JoinType,
      condition: JoinConditionSplitPredicates,
      stateInfo: Option[StatefulOperatorStateInfo],
      eventTimeWatermarkForLateEvents: Option[Long],
      eventTimeWatermarkForEviction: Option[Long],
      stateWatermarkPredicates: JoinStateWatermarkPredicates,
      stateFormatVersion: Int,
      left: SparkPlan,
      right: SparkPlan
  ): StreamingSymmetricHashJoinExec = made(
    JoinParts(
      leftKeys,
      rightKeys,
      joinType,
      condition,
      stateInfo,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      stateWatermarkPredicates,
      stateFormatVersion,
      left,
      right,
      mode
    )
  )
}
