package io.tailrace.plan

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessor, TimeMode}

/** Spark's `transformWithState` on the provider that the session has. See [[TransformWithStateDelegation]]. */
final class DelegatedTransformWithState(
    keyDeserializer: Expression,
    valueDeserializer: Expression,
    groupingAttributes: Seq[Attribute],
    dataAttributes: Seq[Attribute],
    statefulProcessor: StatefulProcessor[Any, Any, Any],
    timeMode: TimeMode,
    outputMode: OutputMode,
    keyEncoder: ExpressionEncoder[Any],
    outputObjAttr: Attribute,
    stateInfo: Option[StatefulOperatorStateInfo],
    batchTimestampMs: Option[Long],
    prevBatchTimestampMs: Option[Long],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    child: SparkPlan,
    isStreaming: Boolean,
    hasInitialState: Boolean,
    initialStateGroupingAttrs: Seq[Attribute],
    initialStateDataAttrs: Seq[Attribute],
    initialStateDeserializer: Expression,
    initialState: SparkPlan
) extends TransformWithStateExec(
      keyDeserializer,
      valueDeserializer,
      groupingAttributes,
      dataAttributes,
      statefulProcessor,
      timeMode,
      outputMode,
      keyEncoder,
      outputObjAttr,
      stateInfo,
      batchTimestampMs,
      prevBatchTimestampMs,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      child,
      isStreaming,
      hasInitialState,
      initialStateGroupingAttrs,
      initialStateDataAttrs,
      initialStateDeserializer,
      initialState
    ) {

  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit =
    if (!TransformWithStateDelegation.isOurs(conf)) super.validateStateStoreProvider(isStreaming)

  // A rule that puts an equal node in a node's place has changed nothing, in Spark's eyes, and the old one stays.
  /** As Spark calls it: in `explain` and in the UI it is Spark's operator. */
  override def nodeName: String = "TransformWithState"

  override def canEqual(other: Any): Boolean = other.isInstanceOf[DelegatedTransformWithState]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = super.hashCode

  // Spark's own copies itself, and its copy is Spark's.
  override protected def withNewChildrenInternal(l: SparkPlan, r: SparkPlan): TransformWithStateExec =
    DelegatedTransformWithState(super.withNewChildrenInternal(l, r))
}

object DelegatedTransformWithState {
  def apply(spark: TransformWithStateExec): DelegatedTransformWithState =
    new DelegatedTransformWithState(
      spark.keyDeserializer,
      spark.valueDeserializer,
      spark.groupingAttributes,
      spark.dataAttributes,
      spark.statefulProcessor,
      spark.timeMode,
      spark.outputMode,
      spark.keyEncoder,
      spark.outputObjAttr,
      spark.stateInfo,
      spark.batchTimestampMs,
      spark.prevBatchTimestampMs,
      spark.eventTimeWatermarkForLateEvents,
      spark.eventTimeWatermarkForEviction,
      spark.child,
      spark.isStreaming,
      spark.hasInitialState,
      spark.initialStateGroupingAttrs,
      spark.initialStateDataAttrs,
      spark.initialStateDeserializer,
      spark.initialState
    )
}
