package io.tailrace.join

import java.io.{EOFException, IOException, UTFDataFormatException}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.tailrace.{
  SparkSession,
  SparkStores,
  StateSchemaValidationResult,
  StatefulOperatorStateInfo
}

import io.tailrace.common.Errors
import io.tailrace.state.BufferedRows

/** Spark's schema file of an operator's state. Spark reads it, and its errors don't name the file. */
private[join] object SchemaFile {

  /** Spark's check of the schema of a store: the same for all joins, since Spark sees rows as bytes. */
  def validate(
      state: StatefulOperatorStateInfo,
      conf: Configuration,
      session: SparkSession
  ): StateSchemaValidationResult = naming(state) {
    SparkStores.checkSchema(state, conf, session, BufferedRows.KeySchema, BufferedRows.ValueSchema)
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

  private def file(state: StatefulOperatorStateInfo): String = SparkStores.schemaFile(state).toString
}
