package io.tailrace.join

import java.io.{EOFException, IOException, UTFDataFormatException}

import scala.util.control.NonFatal

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state.{
  StateSchemaCompatibilityChecker,
  StateStore,
  StateStoreId
}

import io.tailrace.common.Errors

/** Spark's schema file of an operator's state. Spark reads it, and its errors don't say which file they are about. */
private[join] object SchemaFile {

  /** Runs Spark's check. What it expects of the file never changes under one state format: if the file differs, it is
    * damaged, or another operator's.
    */
  def naming[T](state: StatefulOperatorStateInfo)(check: => T): T =
    try check
    catch {
      case e @ (_: EOFException | _: UTFDataFormatException) => throw corrupt(state, "it ends too early", e)
      case e: IOException => throw Errors.stateFileUnavailable(file(state), "read or written", e)
      case NonFatal(e) => throw corrupt(state, "it isn't the schema of this operator's state", e)
    }

  private def corrupt(state: StatefulOperatorStateInfo, reason: String, cause: Throwable): Throwable =
    Errors.stateFileCorrupt(file(state), reason, cause)

  private def file(state: StatefulOperatorStateInfo): String = {
    val store =
      StateStoreId(state.checkpointLocation, state.operatorId, StateStore.PARTITION_ID_TO_CHECK_SCHEMA)
    StateSchemaCompatibilityChecker.schemaFile(store.storeCheckpointLocation()).toString
  }
}
