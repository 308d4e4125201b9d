package io.tailrace.common

import io.tailrace.common.Errors.stateError

/** The errors of tasks that have too little memory. */
object MemoryErrors {

  /** @param needed the bytes that the task asked for
    * @param used   the bytes that it has
    */
  def exhausted(needed: Long, used: Long): RowMemoryExhausted =
    new RowMemoryExhausted(
      "TAILRACE_MEMORY_EXHAUSTED",
      Map("needed" -> needed.toString, "used" -> used.toString)
    )

  /** @param labels the rows of the group that fitted
    * @param bytes  the size of these rows
    * @param cause  null if no row can be that large, whatever memory there is
    */
  def groupTooLarge(labels: Int, bytes: Long, cause: Throwable = null): TailraceStateException =
    stateError("TAILRACE_MEMORY_GROUP", cause, "labels" -> labels, "bytes" -> bytes)
}
