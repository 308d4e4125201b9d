package io.tailrace.common

import io.tailrace.common.Errors.refuse

/** The errors of modes that a streaming query can't be run in. */
object ModeErrors {

  /** @param operator as a user calls it: "tailrace.join" */
  def output(operator: String, mode: String): TailraceAnalysisException =
    refuse("TAILRACE_OUTPUT_MODE_UNSUPPORTED", "operator" -> operator, "mode" -> mode)

  def realTime(operator: String): TailraceAnalysisException =
    refuse("TAILRACE_REAL_TIME_MODE_UNSUPPORTED", "operator" -> operator)

  def continuous(operator: String): TailraceAnalysisException =
    refuse("TAILRACE_CONTINUOUS_MODE_UNSUPPORTED", "operator" -> operator)

  def asyncProgress(operator: String): TailraceAnalysisException =
    refuse("TAILRACE_ASYNC_PROGRESS_UNSUPPORTED", "operator" -> operator)
}
