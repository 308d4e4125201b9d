package io.tailrace.ops.rescale

import io.tailrace.common.Errors.stateError
import io.tailrace.common.TailraceStateException

/** The errors of a rescaling. */
object RescaleErrors {

  def inUse(checkpoint: String): TailraceStateException =
    stateError("TAILRACE_STATE_RESCALE_IN_USE", null, "path" -> checkpoint)

  /** @param operators of Spark's, each with the reason why it can't be rescaled */
  def unsupported(checkpoint: String, operators: Seq[String]): TailraceStateException = stateError(
    "TAILRACE_STATE_RESCALE_UNSUPPORTED",
    null,
    "path" -> checkpoint,
    "operators" -> operators.mkString(", ")
  )

  /** The state of Spark's operators is rewritten between two batches only. */
  def open(checkpoint: String, batch: Long, operators: Seq[String]): TailraceStateException = stateError(
    "TAILRACE_STATE_RESCALE_OPEN_BATCH",
    null,
    "path" -> checkpoint,
    "batch" -> batch,
    "operators" -> operators.mkString(", ")
  )

  /** @param partitions that the batch began with */
  def cutOff(checkpoint: String, batch: Long, partitions: Int): TailraceStateException = stateError(
    "TAILRACE_STATE_RESCALE_CUT_OFF",
    null,
    "path" -> checkpoint,
    "batch" -> batch,
    "partitions" -> partitions
  )

  /** @param what the things that would be too many: "sections in a partition" */
  def tooMany(what: String): TailraceStateException =
    stateError("TAILRACE_STATE_RESCALE_TOO_MANY", null, "what" -> what)
}
