package io.tailrace.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}
import org.apache.spark.sql.types.StructType

/** PySpark's `transformWithState` and `transformWithStateInPandas` on the provider that the session has. See
  * [[TransformWithStateDelegation]].
  */
final class DelegatedTransformWithStateInPySpark(
    functionExpr: Expression,
    groupingAttributes: Seq[Attribute],
    output: Seq[Attribute],
    outputMode: OutputMode,
    timeMode: TimeMode,
    stateInfo: Option[StatefulOperatorStateInfo],
    batchTimestampMs: Option[Long],
    prevBatchTimestampMs: Option[Long],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    userFacingDataType: TransformWithStateInPySpark.UserFacingDataType.Value,
    child: SparkPlan,
    isStreaming: Boolean,
    hasInitialState: Boolean,
    initialState: SparkPlan,
    initialStateGroupingAttrs: Seq[Attribute],
    initialStateSchema: StructType
) extends TransformWithStateInPySparkExec(
      functionExpr,
      groupingAttributes,
      output,
      outputMode,
      timeMode,
      stateInfo,
      batchTimestampMs,
      prevBatchTimestampMs,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      userFacingDataType,
      child,
      isStreaming,
      hasInitialState,
      initialState,
      initialStateGroupingAttrs,
      initialStateSchema
    ) {

  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit =
    if (!TransformWithStateDelegation.isOurs(conf)) super.validateStateStoreProvider(isStreaming)

  // A rule that puts an equal node in a node's place has changed nothing, in Spark's eyes, and the old one stays.
  /** As Spark calls it: in `explain` and in the UI it is Spark's operator. */
  override def nodeName: String = "TransformWithStateInPySpark"

  override def canEqual(other: Any): Boolean = other.isInstanceOf[DelegatedTransformWithStateInPySpark]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = super.hashCode

  // Spark's own copies itself, and its copy is Spark's.
  override protected def withNewChildrenInternal(
      l: SparkPlan,
      r: SparkPlan
  ): TransformWithStateInPySparkExec =
    DelegatedTransformWithStateInPySpark(super.withNewChildrenInternal(l, r))
}

object DelegatedTransformWithStateInPySpark {
  def apply(spark: TransformWithStateInPySparkExec): DelegatedTransformWithStateInPySpark =
    new DelegatedTransformWithStateInPySpark(
      spark.functionExpr,
      spark.groupingAttributes,
      spark.output,
      spark.outputMode,
      spark.timeMode,
      spark.stateInfo,
      spark.batchTimestampMs,
      spark.prevBatchTimestampMs,
      spark.eventTimeWatermarkForLateEvents,
      spark.eventTimeWatermarkForEviction,
      spark.userFacingDataType,
      spark.child,
      spark.isStreaming,
      spark.hasInitialState,
      spark.initialState,
      spark.initialStateGroupingAttrs,
      spark.initialStateSchema
    )
}
