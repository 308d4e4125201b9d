package io.tailrace.common

import java.time.Instant
import java.time.temporal.ChronoUnit

import scala.util.control.NonFatal

import org.apache.spark.sql.AnalysisException
import org.apache.spark.{ErrorClassesJsonReader, SparkException}

/** A request that Tailrace refuses before anything runs: a wrong argument, a session that lacks a part, a
  * checkpoint of other settings. PySpark maps it like Spark's own analysis errors.
  *
  * @param shown parameters that the text has in another form
  */
final class TailraceAnalysisException(
    condition: String,
    parameters: Map[String, String],
    shown: Map[String, String] = Map.empty
) extends AnalysisException(
      message = Errors.message(condition, parameters ++ shown),
      line = None,
      startPosition = None,
      cause = None,
      errorClass = Some(condition),
      messageParameters = parameters,
      context = Array.empty,
      sqlState = Some(Errors.sqlState(condition))
    )

/** An error of a running query. It fails the task or the micro-batch. */
sealed abstract class TailraceRunException(
    condition: String,
    parameters: Map[String, String],
    cause: Throwable
) extends SparkException(Errors.message(condition, parameters), cause, Some(condition), parameters) {
  override def getSqlState: String = Errors.sqlState(condition)
}

/** State that can't be read or written, or a row that ends the query. */
final class TailraceStateException(condition: String, parameters: Map[String, String], cause: Throwable)
    extends TailraceRunException(condition, parameters, cause)

/** Spark has no memory left for the rows of a task. Code that can continue with less memory catches this. */
final class RowMemoryExhausted(condition: String, parameters: Map[String, String])
    extends TailraceRunException(condition, parameters, null)

/** The errors that several packages share. Each method makes one condition. The texts are in
  * `error/tailrace-error-conditions.json`. Tests check the condition and its parameters.
  */
object Errors {
  private lazy val conditions = new ErrorClassesJsonReader(
    Seq(getClass.getClassLoader.getResource("error/tailrace-error-conditions.json"))
  )

  /** The text of a condition. A parameter may be the text of another library, with a full stop at its end: one is shown
    * where the sentence has its own.
    */
  private[common] def message(condition: String, parameters: Map[String, String]): String = {
    val template = conditions.getMessageTemplate(condition)
    val shown = parameters.map { case (name, value) =>
      name -> (if (template.contains(s"<$name>.")) clause(value) else value)
    }
    s"[$condition] " + conditions.getErrorMessage(condition, shown)
  }

  /** An ellipsis stays. */
  private def clause(text: String): String = {
    val trimmed = text.stripTrailing
    if (trimmed.endsWith(".") && !trimmed.endsWith("..")) trimmed.dropRight(1) else text
  }

  private[common] def sqlState(condition: String): String = conditions.getSqlState(condition)

  /** @param path as the user has written it */
  def pathInvalid(path: String, reason: String): TailraceAnalysisException = refuse(
    "TAILRACE_PATH_INVALID",
    "path" -> path,
    "reason" -> reason.stripPrefix("java.net.URISyntaxException: ")
  )

  private[tailrace] def refuse(condition: String, parameters: (String, Any)*): TailraceAnalysisException =
    new TailraceAnalysisException(condition, texts(parameters))

  private[tailrace] def stateError(
      condition: String,
      cause: Throwable,
      parameters: (String, Any)*
  ): TailraceStateException =
    new TailraceStateException(condition, texts(parameters), cause)

  private def onArgument(condition: String, call: String, argument: String, more: (String, Any)*) =
    refuse(condition, Seq("call" -> call, "argument" -> argument) ++ more: _*)

  private def onColumn(
      condition: String,
      call: String,
      argument: String,
      column: String,
      frame: String,
      more: (String, Any)*
  ) = onArgument(condition, call, argument, Seq("column" -> column, "frame" -> frame) ++ more: _*)

  private[common] def texts(parameters: Seq[(String, Any)]): Map[String, String] =
    parameters.map { case (name, value) => name -> String.valueOf(value) }.toMap

  private[tailrace] def instant(micros: Long): String = Instant.EPOCH.plus(micros, ChronoUnit.MICROS).toString

  // ---- arguments of any call; `call` is its name, "tailrace.join", and `frame` "the left DataFrame"

  /** @param value "" for an empty list, too */
  def optionInvalid(
      call: String,
      argument: String,
      value: String,
      allowed: String
  ): TailraceAnalysisException = {
    val parameters = Map("call" -> call, "argument" -> argument, "value" -> value, "allowed" -> allowed)
    val shown = if (value.isEmpty) "empty" else s"'$value'"
    new TailraceAnalysisException("TAILRACE_OPTION_INVALID", parameters, Map("value" -> shown))
  }

  /** @param other the argument that the user has set, too */
  def optionConflict(
      call: String,
      argument: String,
      value: String,
      other: String,
      reason: String
  ): TailraceAnalysisException =
    onArgument(
      "TAILRACE_OPTION_CONFLICT",
      call,
      argument,
      "value" -> value,
      "other" -> other,
      "reason" -> reason
    )

  /** @param call what Python asks for, and this jar doesn't have: a call, or an argument of one */
  def callUnknown(call: String): TailraceAnalysisException =
    refuse("TAILRACE_CONNECT_CALL_UNKNOWN", "call" -> call)

  /** @param needed the argument that has to be set, too */
  def optionNeeds(call: String, argument: String, value: String, needed: String): TailraceAnalysisException =
    onArgument("TAILRACE_OPTION_NEEDS", call, argument, "value" -> value, "needed" -> needed)

  def columnNotFound(
      call: String,
      argument: String,
      column: String,
      frame: String,
      columns: Seq[String]
  ): TailraceAnalysisException =
    onColumn("TAILRACE_COLUMN_NOT_FOUND", call, argument, column, frame, "columns" -> columns.mkString(", "))

  def columnAmbiguous(
      call: String,
      argument: String,
      column: String,
      frame: String
  ): TailraceAnalysisException =
    onColumn("TAILRACE_COLUMN_AMBIGUOUS", call, argument, column, frame)

  /** @param parent the column whose field `column` names */
  def columnNested(
      call: String,
      argument: String,
      column: String,
      frame: String,
      parent: String
  ): TailraceAnalysisException = {
    val name = column.replace('.', '_')
    onColumn("TAILRACE_COLUMN_NESTED", call, argument, column, frame, "parent" -> parent, "name" -> name)
  }

  def columnExpression(call: String, argument: String, expression: String): TailraceAnalysisException =
    onArgument("TAILRACE_COLUMN_EXPRESSION", call, argument, "expression" -> expression)

  def columnType(
      call: String,
      argument: String,
      column: String,
      frame: String,
      dataType: String,
      expected: String
  ): TailraceAnalysisException = {
    val found = "type" -> dataType
    onColumn("TAILRACE_COLUMN_TYPE", call, argument, column, frame, found, "expected" -> expected)
  }

  def columnExists(call: String, column: String, frame: String, cure: String): TailraceAnalysisException =
    refuse("TAILRACE_COLUMN_EXISTS", "call" -> call, "column" -> column, "frame" -> frame, "cure" -> cure)

  def columnReserved(call: String, column: String, prefix: String): TailraceAnalysisException =
    refuse("TAILRACE_COLUMN_RESERVED", "call" -> call, "column" -> column, "prefix" -> prefix)

  /** @param name the name that two operators of one query have */
  def nameExists(call: String, name: String): TailraceAnalysisException =
    refuse("TAILRACE_NAME_EXISTS", "call" -> call, "name" -> name)

  def functionArguments(call: String, count: Int): TailraceAnalysisException =
    refuse("TAILRACE_FUNCTION_ARGUMENTS", "call" -> call, "count" -> count)

  def functionArgumentType(
      call: String,
      argument: String,
      dataType: String,
      expected: String
  ): TailraceAnalysisException =
    onArgument("TAILRACE_FUNCTION_ARGUMENT_TYPE", call, argument, "type" -> dataType, "expected" -> expected)

  // ---- the session

  def extensionMissing(): TailraceAnalysisException = refuse("TAILRACE_SESSION_EXTENSION_MISSING")

  def confInvalid(key: String, value: String, expected: String): TailraceAnalysisException =
    refuse("TAILRACE_CONF_INVALID", "key" -> key, "value" -> value, "expected" -> expected)

  /** @param nearest the known key that looks most like `key` */
  def confUnknown(key: String, nearest: String, known: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_CONF_UNKNOWN", "key" -> key, "nearest" -> nearest, "known" -> known.mkString(", "))

  def sparkVersionMismatch(built: String, found: String): TailraceAnalysisException =
    refuse("TAILRACE_SPARK_VERSION_MISMATCH", "built" -> built, "found" -> found)

  // ---- checkpoints and state

  def checkpointIncompatible(path: String, changes: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_CHECKPOINT_INCOMPATIBLE", "path" -> path, "changes" -> changes.mkString("; "))

  def checkpointNotFound(path: String): TailraceAnalysisException =
    refuse("TAILRACE_CHECKPOINT_NOT_FOUND", "path" -> path)

  def checkpointWithoutBatch(path: String): TailraceAnalysisException =
    refuse("TAILRACE_CHECKPOINT_WITHOUT_BATCH", "path" -> path)

  def checkpointWithoutJoin(path: String, operators: Seq[String]): TailraceAnalysisException =
    refuse(
      "TAILRACE_CHECKPOINT_WITHOUT_JOIN",
      "path" -> path,
      "operators" -> (if (operators.isEmpty) "none" else operators.mkString(", "))
    )

  def checkpointVersionNotRetained(path: String, version: Long, retained: String): TailraceAnalysisException =
    refuse(
      "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED",
      "path" -> path,
      "version" -> version,
      "retained" -> (if (retained.isEmpty) "none" else retained)
    )

  /** @param found the numbers that it has */
  def statePartitions(path: String, partitions: Int, found: String): TailraceStateException =
    stateError(
      "TAILRACE_STATE_PARTITIONS",
      null,
      "path" -> path,
      "partitions" -> partitions,
      "found" -> found
    )

  /** @param neededBy the part of the query that needs the file: "batch 7" */
  def stateFileMissing(file: String, neededBy: String, cause: Throwable = null): TailraceStateException =
    stateError("TAILRACE_STATE_FILE_MISSING", cause, "file" -> file, "neededBy" -> neededBy)

  /** @param columns as the checkpoint seems to name them */
  def stateColumnsUnreadable(path: String, columns: String, reason: String): TailraceStateException =
    stateError(
      "TAILRACE_STATE_COLUMNS_UNREADABLE",
      null,
      "path" -> path,
      "columns" -> columns,
      "reason" -> reason
    )

  /** A file of which there is no other copy: of the checkpoint, or of a folder of windows. */
  def stateFileCorrupt(file: String, reason: String, cause: Throwable = null): TailraceStateException =
    stateError("TAILRACE_STATE_FILE_CORRUPT", cause, "file" -> file, "reason" -> reason)

  /** A local file that the checkpoint doesn't have, but a task can make again.
    *
    * @param content of the file: "rows that ..."
    */
  def stateLocalFile(
      file: String,
      content: String,
      reason: String,
      cause: Throwable
  ): TailraceStateException =
    stateError("TAILRACE_STATE_LOCAL_FILE", cause, "file" -> file, "content" -> content, "reason" -> reason)

  /** A local copy of a file, which is damaged again each time it was made again.
    *
    * @param original in the checkpoint
    */
  def stateLocalCopy(
      file: String,
      original: String,
      reason: String,
      cause: Throwable
  ): TailraceStateException =
    stateError("TAILRACE_STATE_LOCAL_COPY", cause, "file" -> file, "original" -> original, "reason" -> reason)

  /** A local file of a query that writes no state into its checkpoint. */
  def stateOnlyCopy(file: String, reason: String, cause: Throwable): TailraceStateException =
    stateError("TAILRACE_STATE_ONLY_COPY", cause, "file" -> file, "reason" -> reason)

  /** The file system failed; the file may be fine.
    *
    * @param action the operation that failed: "read", "written"
    */
  def stateFileUnavailable(file: String, action: String, cause: Throwable): TailraceStateException =
    stateError(
      "TAILRACE_STATE_FILE_UNAVAILABLE",
      cause,
      "file" -> file,
      "action" -> action,
      "reason" -> cause
    )

  def stateFormatUnsupported(file: String, format: Int, oldest: Int, newest: Int): TailraceStateException =
    stateError(
      "TAILRACE_STATE_FORMAT_UNSUPPORTED",
      null,
      "file" -> file,
      "format" -> format,
      "oldest" -> oldest,
      "newest" -> newest
    )

  /** Reading failed, but nothing is damaged: another attempt, or other settings, may succeed. */
  def stateUnreadable(path: String, cause: Throwable): TailraceStateException =
    stateError("TAILRACE_STATE_UNREADABLE", cause, "path" -> path, "reason" -> cause)

  def stateOperationUnsupported(operation: String): TailraceStateException =
    stateError("TAILRACE_STATE_OPERATION_UNSUPPORTED", null, "operation" -> operation)
}

/** The errors of output modes and triggers that an operator doesn't run in. */
object ModeErrors {

  /** @param operator as a user calls it: "tailrace.join" */
  def output(operator: String, mode: String): TailraceAnalysisException =
    Errors.refuse("TAILRACE_OUTPUT_MODE_UNSUPPORTED", "operator" -> operator, "mode" -> mode)

  def realTime(operator: String): TailraceAnalysisException =
    Errors.refuse("TAILRACE_REAL_TIME_MODE_UNSUPPORTED", "operator" -> operator)

  def continuous(operator: String): TailraceAnalysisException =
    Errors.refuse("TAILRACE_CONTINUOUS_MODE_UNSUPPORTED", "operator" -> operator)

  def asyncProgress(operator: String): TailraceAnalysisException =
    Errors.refuse("TAILRACE_ASYNC_PROGRESS_UNSUPPORTED", "operator" -> operator)
}

/** The errors of tasks that have too little memory. */
object MemoryErrors {

  /** @param needed the bytes that the task asked for
    * @param used   the bytes that it has
    */
  def exhausted(needed: Long, used: Long): RowMemoryExhausted =
    new RowMemoryExhausted("TAILRACE_MEMORY_EXHAUSTED", Errors.texts(Seq("needed" -> needed, "used" -> used)))

  /** @param labels the rows of the group that fitted
    * @param bytes  the size of these rows
    * @param cause  null if no row can be that large, whatever memory there is
    */
  def groupTooLarge(labels: Int, bytes: Long, cause: Throwable = null): TailraceStateException =
    Errors.stateError("TAILRACE_MEMORY_GROUP", cause, "labels" -> labels, "bytes" -> bytes)
}

/** Undoes a failed operation. The original error is thrown; an error of the undoing is attached to it. */
private[tailrace] object OnFailure {
  def apply[T](undo: => Unit)(body: => T): T =
    try body
    catch {
      case e: Throwable =>
        try undo
        catch { case NonFatal(failure) => e.addSuppressed(failure) }
        throw e
    }
}
