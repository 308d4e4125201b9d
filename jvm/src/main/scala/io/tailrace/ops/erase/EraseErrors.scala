package io.tailrace.ops.erase

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}

/** The errors of an erasure. */
object EraseErrors {

  /** @param reason "it names no column" */
  def conditionInvalid(condition: String, reason: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_ERASE_CONDITION", "condition" -> condition, "reason" -> reason)

  /** @param columns of the join, by side, as text */
  def notOfJoin(condition: String, operator: Long, columns: String): TailraceAnalysisException = refuse(
    "TAILRACE_STATE_ERASE_COLUMNS",
    "condition" -> condition,
    "operator" -> operator,
    "columns" -> columns
  )

  def ambiguous(column: String, operator: Long): TailraceAnalysisException =
    refuse("TAILRACE_STATE_ERASE_AMBIGUOUS", "column" -> column, "operator" -> operator)

  def otherOperators(checkpoint: String, operators: Seq[String]): TailraceStateException = stateError(
    "TAILRACE_STATE_ERASE_OTHERS",
    null,
    "path" -> checkpoint,
    "operators" -> operators.mkString(", ")
  )

  /** @param keys that all labels have */
  def ofLabel(column: String, label: String, operator: Long, keys: Seq[String]): TailraceAnalysisException =
    refuse(
      "TAILRACE_STATE_ERASE_LABEL_KEY",
      "column" -> column,
      "label" -> label,
      "operator" -> operator,
      "keys" -> keys.mkString(", ")
    )

  /** @param condition of the user, on columns of impressions that their touches don't have
    * @param keys      that all labels have
    */
  def touches(
      condition: String,
      label: String,
      operator: Long,
      keys: Seq[String]
  ): TailraceAnalysisException = refuse(
    "TAILRACE_STATE_ERASE_TOUCHES",
    "condition" -> condition,
    "label" -> label,
    "operator" -> operator,
    "keys" -> keys.mkString(", ")
  )

  /** @param recursions whose rows are in files of their own */
  def rowsInFlight(checkpoint: String, recursions: Seq[String]): TailraceStateException = stateError(
    "TAILRACE_STATE_ERASE_RECURSION",
    null,
    "path" -> checkpoint,
    "recursions" -> recursions.mkString(", ")
  )

  def rescaleCutOff(checkpoint: String, partitions: Int): TailraceStateException =
    stateError("TAILRACE_STATE_ERASE_CUT_OFF", null, "path" -> checkpoint, "partitions" -> partitions)

  def remains(directory: String, files: Seq[String]): TailraceStateException = stateError(
    "TAILRACE_STATE_ERASE_REMAINS",
    null,
    "path" -> directory,
    "files" -> files.mkString(", ")
  )
}
