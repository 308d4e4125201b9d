package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.JoinType
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streaming.OutputMode

/** The parameters of Spark's stream-stream join, in the order of its constructor in the newest minor version. */
final case class JoinParts(
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
    right: SparkPlan,
    outputMode: Option[OutputMode]
)

object JoinParts {
  private val constructor = classOf[JoinParts].getConstructors.head

  /** @param values of all of them, in their order */
  private[tailrace] def of(values: Seq[Any]): JoinParts =
    constructor.newInstance(values.map(_.asInstanceOf[AnyRef]): _*).asInstanceOf[JoinParts]
}
