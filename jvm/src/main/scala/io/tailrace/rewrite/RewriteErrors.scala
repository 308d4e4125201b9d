package io.tailrace.rewrite

import io.tailrace.common.Errors.stateError
import io.tailrace.common.TailraceStateException

/** The errors of any command that writes the state of a stopped query anew. */
object RewriteErrors {

  def inUse(checkpoint: String): TailraceStateException =
    stateError("TAILRACE_STATE_IN_USE", null, "path" -> checkpoint)

  /** @param keys their text in the checkpoint */
  def keysUnreadable(path: String, keys: String, cause: Throwable = null): TailraceStateException =
    stateError("TAILRACE_STATE_RESCALE_KEYS", cause, "path" -> path, "keys" -> keys)
}
