package io.tailrace.common

import io.tailrace.common.Errors.stateError

/** The errors of watermarks that run, and of what they keep, as [[Errors]] has the others'. */
object WatermarkErrors {

  /** @param batch that needs it */
  def progressMissing(directory: String, batch: Long): Throwable =
    stateError(
      "TAILRACE_WATERMARK_PROGRESS_MISSING",
      null,
      "directory" -> directory,
      "batch" -> batch.toString
    )
}
