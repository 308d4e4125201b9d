package io.tailrace.common

import java.time.Instant
import java.time.temporal.ChronoUnit

import org.apache.spark.sql.AnalysisException
import org.apache.spark.{ErrorClassesJsonReader, SparkException}

/** A request that Tailrace refuses before anything runs: a wrong argument, a session that lacks a part, a checkpoint
  * that belongs to other settings. PySpark maps it as Spark's own analysis errors, so a Python user sees one message.
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

/** State that can't be read or written as it must be: it fails the task, and with it the query. */
final class TailraceStateException(condition: String, parameters: Map[String, String], cause: Throwable)
    extends SparkException(
      message = Errors.message(condition, parameters),
      cause = cause,
      errorClass = Some(condition),
      messageParameters = parameters
    ) {
  override def getSqlState: String = Errors.sqlState(condition)
}

/** Spark has no more memory for the rows of a task. Who can do with less catches it; for others it is the task's error. */
final class RowMemoryExhausted(condition: String, parameters: Map[String, String])
    extends SparkException(
      message = Errors.message(condition, parameters),
      cause = null,
      errorClass = Some(condition),
      messageParameters = parameters
    ) {
  override def getSqlState: String = Errors.sqlState(condition)
}

/** All errors that a user can meet. Texts stand in `error/tailrace-error-conditions.json`: what is wrong, then what to
  * do. Each method below raises one condition; tests check the condition and its parameters, never the prose.
  */
object Errors {
  private lazy val conditions = new ErrorClassesJsonReader(
    Seq(getClass.getClassLoader.getResource("error/tailrace-error-conditions.json"))
  )

  private[common] def message(condition: String, parameters: Map[String, String]): String =
    s"[$condition] " + conditions.getErrorMessage(condition, parameters)

  private[common] def sqlState(condition: String): String = conditions.getSqlState(condition)

  private[tailrace] def refuse(condition: String, parameters: (String, String)*): Throwable =
    new TailraceAnalysisException(condition, parameters.toMap)

  private[tailrace] def stateError(
      condition: String,
      cause: Throwable,
      parameters: (String, String)*
  ): Throwable =
    new TailraceStateException(condition, parameters.toMap, cause)

  def extensionMissing(): Throwable = refuse("TAILRACE_SESSION_EXTENSION_MISSING")

  def providerMissing(provider: String): Throwable =
    refuse("TAILRACE_SESSION_PROVIDER_MISSING", "provider" -> provider)

  def confInvalid(key: String, value: String, expected: String): Throwable =
    refuse("TAILRACE_CONF_INVALID", "key" -> key, "value" -> value, "expected" -> expected)

  def sparkVersionMismatch(built: String, found: String): Throwable =
    refuse("TAILRACE_SPARK_VERSION_MISMATCH", "built" -> built, "found" -> found)

  /** @param other the column of that side that does have a watermark, if one has */
  def watermarkMissing(side: String, column: String, other: Option[String]): Throwable =
    refuse(
      "TAILRACE_JOIN_WATERMARK_MISSING",
      "side" -> side,
      "column" -> column,
      "other" -> other.fold("")(c => s" (its watermark is on `$c`)"),
      "delay" -> "10 minutes"
    )

  def mixedBatchAndStream(stream: String, batch: String): Throwable =
    refuse("TAILRACE_JOIN_MIXED_BATCH_AND_STREAM", "stream" -> stream, "batch" -> batch)

  def columnNotFound(side: String, argument: String, column: String, columns: Seq[String]): Throwable =
    refuse(
      "TAILRACE_JOIN_COLUMN_NOT_FOUND",
      "side" -> side,
      "argument" -> argument,
      "column" -> column,
      "columns" -> columns.mkString(", ")
    )

  def columnAmbiguous(side: String, argument: String, column: String): Throwable =
    refuse("TAILRACE_JOIN_COLUMN_AMBIGUOUS", "side" -> side, "argument" -> argument, "column" -> column)

  def keysMissing(): Throwable = refuse("TAILRACE_JOIN_KEYS_MISSING")

  def keyTypesDiffer(left: String, leftType: String, right: String, rightType: String): Throwable =
    refuse(
      "TAILRACE_JOIN_KEY_TYPES_DIFFER",
      "left" -> left,
      "leftType" -> leftType,
      "right" -> right,
      "rightType" -> rightType
    )

  def keyTypeUnsupported(column: String, dataType: String): Throwable =
    refuse("TAILRACE_JOIN_KEY_TYPE_UNSUPPORTED", "column" -> column, "type" -> dataType)

  def keyCollated(column: String, dataType: String): Throwable =
    refuse("TAILRACE_JOIN_KEY_COLLATED", "column" -> column, "type" -> dataType)

  def timeType(side: String, column: String, dataType: String): Throwable =
    refuse("TAILRACE_JOIN_TIME_TYPE", "side" -> side, "column" -> column, "type" -> dataType)

  def timeTypesDiffer(left: String, leftType: String, right: String, rightType: String): Throwable =
    refuse(
      "TAILRACE_JOIN_TIME_TYPES_DIFFER",
      "left" -> left,
      "leftType" -> leftType,
      "right" -> right,
      "rightType" -> rightType
    )

  def durationInvalid(argument: String, value: String): Throwable =
    refuse("TAILRACE_JOIN_DURATION_INVALID", "argument" -> argument, "value" -> value)

  def durationNegative(argument: String, value: String): Throwable =
    refuse("TAILRACE_JOIN_DURATION_NEGATIVE", "argument" -> argument, "value" -> value)

  def optionInvalid(argument: String, value: String, allowed: String): Throwable =
    refuse("TAILRACE_JOIN_OPTION_INVALID", "argument" -> argument, "value" -> value, "allowed" -> allowed)

  def optionConflict(argument: String, value: String): Throwable =
    refuse("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> argument, "value" -> value)

  def columnExists(column: String, side: String, cure: String): Throwable =
    refuse("TAILRACE_JOIN_COLUMN_EXISTS", "column" -> column, "side" -> side, "cure" -> cure)

  def checkpointIncompatible(path: String, changes: Seq[String]): Throwable =
    refuse("TAILRACE_CHECKPOINT_INCOMPATIBLE", "path" -> path, "changes" -> changes.mkString("; "))

  def checkpointNotFound(path: String): Throwable = refuse("TAILRACE_CHECKPOINT_NOT_FOUND", "path" -> path)

  def checkpointWithoutBatch(path: String): Throwable =
    refuse("TAILRACE_CHECKPOINT_WITHOUT_BATCH", "path" -> path)

  def checkpointWithoutJoin(path: String, operators: Seq[String]): Throwable =
    refuse(
      "TAILRACE_CHECKPOINT_WITHOUT_JOIN",
      "path" -> path,
      "operators" -> (if (operators.isEmpty) "none" else operators.mkString(", "))
    )

  def checkpointVersionNotRetained(path: String, version: Long, retained: String): Throwable =
    refuse(
      "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED",
      "path" -> path,
      "version" -> version.toString,
      "retained" -> (if (retained.isEmpty) "none" else retained)
    )

  def stateFileMissing(file: String, version: Long, cause: Throwable): Throwable =
    stateError("TAILRACE_STATE_FILE_MISSING", cause, "file" -> file, "version" -> version.toString)

  def stateFileCorrupt(file: String, reason: String, cause: Throwable = null): Throwable =
    stateError("TAILRACE_STATE_FILE_CORRUPT", cause, "file" -> file, "reason" -> reason)

  /** The file system failed, not the file.
    *
    * @param action what was being done to it: "read", "written"
    */
  def stateFileUnavailable(file: String, action: String, cause: Throwable): Throwable =
    stateError(
      "TAILRACE_STATE_FILE_UNAVAILABLE",
      cause,
      "file" -> file,
      "action" -> action,
      "reason" -> cause.toString
    )

  def stateFormatUnsupported(file: String, format: Int, oldest: Int, newest: Int): Throwable =
    stateError(
      "TAILRACE_STATE_FORMAT_UNSUPPORTED",
      null,
      "file" -> file,
      "format" -> format.toString,
      "oldest" -> oldest.toString,
      "newest" -> newest.toString
    )

  def functionArguments(call: String, count: Int): Throwable =
    refuse("TAILRACE_FUNCTION_ARGUMENTS", "call" -> call, "count" -> count.toString)

  def metadataMixed(first: String, second: String): Throwable =
    stateError("TAILRACE_METADATA_MIXED", null, "first" -> first, "second" -> second)

  def replayColumn(argument: String, column: String, found: Int, columns: Seq[String]): Throwable =
    refuse(
      "TAILRACE_REPLAY_COLUMN",
      "argument" -> argument,
      "column" -> column,
      "found" -> found.toString,
      "columns" -> columns.mkString(", ")
    )

  def replayColumnType(argument: String, column: String, dataType: String, expected: String): Throwable =
    refuse(
      "TAILRACE_REPLAY_COLUMN_TYPE",
      "argument" -> argument,
      "column" -> column,
      "type" -> dataType,
      "expected" -> expected
    )

  def replayOptionInvalid(argument: String, value: String, allowed: String): Throwable =
    refuse("TAILRACE_REPLAY_OPTION_INVALID", "argument" -> argument, "value" -> value, "allowed" -> allowed)

  def replayColumnExists(column: String): Throwable =
    refuse("TAILRACE_REPLAY_COLUMN_EXISTS", "column" -> column)

  def watermarkColumn(argument: String, column: String, found: Int, columns: Seq[String]): Throwable =
    refuse(
      "TAILRACE_WATERMARK_COLUMN",
      "argument" -> argument,
      "column" -> column,
      "found" -> found.toString,
      "columns" -> columns.mkString(", ")
    )

  def watermarkColumnType(argument: String, column: String, dataType: String, expected: String): Throwable =
    refuse(
      "TAILRACE_WATERMARK_COLUMN_TYPE",
      "argument" -> argument,
      "column" -> column,
      "type" -> dataType,
      "expected" -> expected
    )

  def watermarkColumnExists(column: String): Throwable =
    refuse("TAILRACE_WATERMARK_COLUMN_EXISTS", "column" -> column)

  def watermarkOptionInvalid(argument: String, value: String, allowed: String): Throwable =
    refuse(
      "TAILRACE_WATERMARK_OPTION_INVALID",
      "argument" -> argument,
      "value" -> value,
      "allowed" -> allowed
    )

  def watermarkRosterEmpty(): Throwable = refuse("TAILRACE_WATERMARK_ROSTER_EMPTY")

  def watermarkStampSource(): Throwable = refuse("TAILRACE_WATERMARK_STAMP_SOURCE")

  def windowsSource(): Throwable = refuse("TAILRACE_WATERMARK_WINDOWS_SOURCE")

  def windowsBatch(): Throwable = refuse("TAILRACE_WATERMARK_WINDOWS_BATCH")

  def windowsFolder(path: String, reason: String): Throwable =
    refuse("TAILRACE_WATERMARK_WINDOWS_FOLDER", "path" -> path, "reason" -> reason)

  def windowsNotFound(path: String): Throwable =
    refuse("TAILRACE_WATERMARK_WINDOWS_NOT_FOUND", "path" -> path)

  /** @param newest batch that has landed */
  def windowsRolledBack(path: String, batch: Long, newest: Long): Throwable =
    stateError(
      "TAILRACE_WATERMARK_WINDOWS_ROLLED_BACK",
      null,
      "path" -> path,
      "batch" -> batch.toString,
      "newest" -> newest.toString
    )

  def windowsFileMissing(from: String, to: String, batch: Long): Throwable =
    stateError(
      "TAILRACE_WATERMARK_WINDOWS_FILE_MISSING",
      null,
      "from" -> from,
      "to" -> to,
      "batch" -> batch.toString
    )

  def windowsTwoWriters(path: String, cause: Throwable): Throwable =
    stateError("TAILRACE_WATERMARK_WINDOWS_TWO_WRITERS", cause, "path" -> path)

  /** @param time  of the row, in microseconds
    * @param limit the furthest time that would have been let pass
    */
  def watermarkFuture(host: String, time: Long, limit: Long): Throwable =
    stateError(
      "TAILRACE_WATERMARK_FUTURE",
      null,
      "host" -> host,
      "time" -> instant(time),
      "limit" -> instant(limit)
    )

  private[tailrace] def instant(micros: Long): String = Instant.EPOCH.plus(micros, ChronoUnit.MICROS).toString

  /** What reading failed with isn't damage: another attempt, or other settings, may succeed. */
  def stateUnreadable(path: String, cause: Throwable): Throwable =
    stateError("TAILRACE_STATE_UNREADABLE", cause, "path" -> path, "reason" -> cause.toString)

  def stateOperationUnsupported(operation: String): Throwable =
    stateError("TAILRACE_STATE_OPERATION_UNSUPPORTED", null, "operation" -> operation)
}
