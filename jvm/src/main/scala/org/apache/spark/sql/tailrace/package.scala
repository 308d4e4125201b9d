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

  /** An operator with state. */
  type StateStoreWriter = execution.streaming.operators.stateful.StateStoreWriter

  type CheckpointFileManager = execution.streaming.checkpointing.CheckpointFileManager
  type CancellableFSDataOutputStream =
    execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
}
