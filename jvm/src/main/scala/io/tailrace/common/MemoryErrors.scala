package io.tailrace.common

import io.tailrace.common.Errors.stateError

/** The errors of tasks that have too little memory, as [[Errors]] has the others'. */
object MemoryErrors {

  /** @param needed bytes
    * @param used   bytes that the task has
    */
  def exhausted(needed: Long, used: Long): RowMemoryExhausted =
    new RowMemoryExhausted(
      "TAILRACE_MEMORY_EXHAUSTED",
      Map("needed" -> needed.toString, "used" -> used.toString)
    )

  /** @param labels how many rows of the group there was room for, or are in it
    * @param bytes  of those
    * @param cause  Spark has no more memory; none: no row can be so large
    */
  def groupTooLarge(labels: Int, bytes: Long, cause: Throwable = null): TailraceStateException =
    stateError("TAILRACE_MEMORY_GROUP", cause, "labels" -> labels, "bytes" -> bytes)
}
