package io.tailrace.state

/** How many bytes one of a task's buffers may hold, so that something is left for the others: up to `most`, and no more
  * than half of what there is. Spark is asked only when a buffer becomes large, for the question may cost others the
  * memory that they hold.
  */
final class MemoryShare(memory: RowMemory, most: Long) {
  private val unasked = Math.min(most, MemoryShare.Unasked)
  private var limit = unasked
  private var asked = most == unasked

  /** The buffer begins anew. */
  def reset(): Unit = {
    limit = unasked
    asked = most == unasked
  }

  /** Whether a buffer that holds `bytes` bytes is full. */
  def isFull(bytes: Long): Boolean = bytes >= limit && {
    if (!asked) {
      asked = true
      limit = Math.max(unasked, Math.min(most, (bytes + memory.available(2 * most)) / 2))
    }
    bytes >= limit
  }
}

object MemoryShare {

  /** So much is always a buffer's own. */
  private val Unasked = 4L << 20
}
