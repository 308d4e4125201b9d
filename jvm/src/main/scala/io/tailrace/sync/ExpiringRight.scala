package io.tailrace.sync

import io.tailrace.state.{LiveSection, RunCursor}

/** The right rows of some sections that nobody has joined, up to a time, one after the other.
  *
  * @param sections with their numbers in the index
  */
private[sync] final class ExpiringRight(
    sections: Seq[(LiveSection, Int)],
    through: Long,
    index: RightIndex,
    hash: KeyHash
) extends AutoCloseable {
  private val pending = sections.iterator
  private var current: RunCursor = _
  private var number = 0

  /** Goes on to the next row. @return false if there is none */
  def next(): Boolean = {
    if (current != null) current.next()
    while (!isLive) {
      if (current != null && current.isValid) current.next()
      else if (!open()) return false
    }
    true
  }

  private def isLive: Boolean = current != null && current.isValid && current.time <= through &&
    index.contains(hash.of(current.base, current.at), number, current.seq)

  private def open(): Boolean = {
    close()
    pending.hasNext && {
      val (live, section) = pending.next()
      number = section
      current = live.cursor()
      current.first()
      true
    }
  }

  /** Where the row is. */
  def cursor: RunCursor = current

  override def close(): Unit = if (current != null) {
    current.close()
    current = null
  }
}
