package io.tailrace.join

import java.io.{EOFException, IOException, UTFDataFormatException}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.tailrace.SparkSession

import io.tailrace.common.Errors
import io.tailrace.state.BufferedRows

/** Spark's schema file of an operator's state. Spark reads it, and its errors don't name the file. */
private[join] object SchemaFile {

  /** Spark's check of the schema of a store: the same for all joins, since Spark sees rows as bytes. */
  def validate(
      state: StatefulOperatorStateInfo,
      conf: Configuration,
      session: SparkSession
  ): StateSchemaValidationResult = {
    import BufferedRows.{KeySchema, ValueSchema}
    val schema = StateStoreColFamilySchema(StateStore.DEFAULT_COL_FAMILY_NAME, 0, KeySchema, 0, ValueSchema)
    // Schema version 2, whatever Spark's own joins are set to: this is a store of one column family.
    naming(state) {
      StateSchemaCompatibilityChecker
        .validateAndMaybeEvolveStateSchema(state, conf, List(schema), session.sessionState, 2)
    }
  }

  /** Runs Spark's check. The schema is the same for all of one state format: a file that differs is damaged,
    * or of another operator.
    */
  private def naming[T](state: StatefulOperatorStateInfo)(check: => T): T =
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
