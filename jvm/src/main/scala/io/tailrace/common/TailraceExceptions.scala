package io.tailrace.common

import org.apache.spark.SparkException
import org.apache.spark.sql.AnalysisException

/** A request that Tailrace refuses before anything runs: a wrong argument, a session that lacks a part, a checkpoint
  * of other settings. PySpark maps it like Spark's own analysis errors, so a Python user sees one message.
  */
final class TailraceAnalysisException(condition: String, parameters: Map[String, String])
    extends AnalysisException(
      message = Errors.message(condition, parameters),
      line = None,
      startPosition = None,
      cause = None,
      errorClass = Some(condition),
      messageParameters = parameters,
      context = Array.empty,
      sqlState = Some(Errors.sqlState(condition))
    )

/** State that can't be read or written, or a row that ends the query. It fails the task or the micro-batch, and with it the query. */
final class TailraceStateException(condition: String, parameters: Map[String, String], cause: Throwable)
    extends SparkException(
      message = Errors.message(condition, parameters),
      cause = cause,
      errorClass = Some(condition),
      messageParameters = parameters
    ) {
  override def getSqlState: String = Errors.sqlState(condition)
}

/** Spark has no more memory for the rows of a task. Code that can go on with less catches it; otherwise it fails the task. */
final class RowMemoryExhausted(condition: String, parameters: Map[String, String])
    extends SparkException(
      message = Errors.message(condition, parameters),
      cause = null,
      errorClass = Some(condition),
      messageParameters = parameters
    ) {
  override def getSqlState: String = Errors.sqlState(condition)
}
