package org.apache.spark.sql

/** Spark's internal types that Tailrace uses in many places. Spark has moved such classes between its
  * versions; code outside of this package imports them from here, so that such a move changes one line.
  */
package object tailrace {

  /** The session that plans and runs queries in this JVM. */
  type SparkSession = classic.SparkSession
  val SparkSession: classic.SparkSession.type = classic.SparkSession

  type Sink = execution.streaming.Sink
  type EventTimeWatermarkExec = execution.streaming.operators.stateful.EventTimeWatermarkExec
  type EventTimeStatsAccum = execution.streaming.operators.stateful.EventTimeStatsAccum

  /** An operator with state. */
  type StateStoreWriter = execution.streaming.operators.stateful.StateStoreWriter

  /** Where an operator's state is, and which version of it a batch begins with. */
  type StatefulOperatorStateInfo = execution.streaming.operators.stateful.StatefulOperatorStateInfo

  /** The ids of a partition's new version, in checkpoint format 2. */
  type StatefulOpStateStoreCheckpointInfo =
    execution.streaming.operators.stateful.StatefulOpStateStoreCheckpointInfo

  type StateStoreId = execution.streaming.state.StateStoreId
  val StateStoreId: execution.streaming.state.StateStoreId.type = execution.streaming.state.StateStoreId
  type StateStoreConf = execution.streaming.state.StateStoreConf
  type StateSchemaValidationResult = execution.streaming.state.StateSchemaValidationResult

  /** A row of a state, as Spark's reader of states sees it. */
  type UnsafeRowPair = execution.streaming.state.UnsafeRowPair

  type JoinConditionSplitPredicates =
    execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper.JoinConditionSplitPredicates
  type JoinStateWatermarkPredicates =
    execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper.JoinStateWatermarkPredicates

  /** The settings of a session. Entries come and go with Spark's versions: the bridge reads them. */
  type SQLConf = internal.SQLConf

  /** A source of version 2 in a query that isn't started yet. */
  type StreamingRelationV2 = catalyst.streaming.StreamingRelationV2

  /** Such a source in a query that runs, and in the plan of one of its batches. */
  type StreamingDataSourceV2ScanRelation = execution.datasources.v2.StreamingDataSourceV2ScanRelation
  type MicroBatchScanExec = execution.datasources.v2.MicroBatchScanExec

  /** A query that is being started, after Spark's checks. */
  type WriteToStream = catalyst.streaming.WriteToStream

  /** A shuffle, or a broadcast. */
  type Exchange = execution.exchange.Exchange

  type CheckpointFileManager = execution.streaming.checkpointing.CheckpointFileManager
  type CancellableFSDataOutputStream =
    execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
}
