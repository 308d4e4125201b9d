package io.tailrace.ops.rewrite

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}

/** The errors of any command that writes the state of a stopped query anew. */
object RewriteErrors {

  def inUse(checkpoint: String): TailraceStateException =
    stateError("TAILRACE_STATE_IN_USE", null, "path" -> checkpoint)

  /** @param keys their text in the checkpoint */
  def keysUnreadable(path: String, keys: String, cause: Throwable = null): TailraceStateException =
    stateError("TAILRACE_STATE_RESCALE_KEYS", cause, "path" -> path, "keys" -> keys)

  def destinationExists(path: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_EXISTS", "path" -> path)

  /** @param path of the new checkpoint, or of the export */
  def failed(path: String, cause: Throwable): TailraceStateException = {
    // The root cause is the file system's; the others are Spark's.
    val reason = Iterator.iterate(cause)(_.getCause).takeWhile(_ != null).toSeq.last
    stateError("TAILRACE_STATE_EXCHANGE_FAILED", cause, "path" -> path, "reason" -> reason)
  }
}
