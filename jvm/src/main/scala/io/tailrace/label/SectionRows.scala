package io.tailrace.label

import java.util.PriorityQueue

import io.tailrace.state.{LiveSection, RunCursor}

/** The rows of one key in some key-sorted sections, in the order of time: each section has them in that order.
  *
  * @param base     a row with the key, which stays where it is
  * @param earliest rows before it are left out
  * @param latest   and those after it
  */
private[label] final class SectionRows(base: AnyRef, at: Long, earliest: Long, latest: Long)
    extends KeyedRows
    with AutoCloseable {
  private val queue =
    new PriorityQueue[RunCursor](11, (a: RunCursor, b: RunCursor) => java.lang.Long.compare(a.time, b.time))

  /** Begins to read. */
  def open(sections: Seq[LiveSection]): Unit = sections.foreach { live =>
    val cursor = live.cursor()
    try cursor.seekKey(base, at)
    catch {
      case e: Throwable =>
        cursor.close()
        throw e
    }
    while (hasKey(cursor) && cursor.time < earliest) cursor.next()
    enqueue(cursor)
  }

  private def hasKey(cursor: RunCursor): Boolean = cursor.isValid && cursor.compareKey(base, at) == 0

  private def enqueue(cursor: RunCursor): Unit =
    if (hasKey(cursor) && cursor.time <= latest) queue.add(cursor) else cursor.close()

  override def isEmpty: Boolean = queue.isEmpty
  override def time: Long = queue.peek().time

  override def addTo(candidates: Candidates): Unit = {
    val cursor = queue.peek()
    candidates.add(cursor.base, cursor.at)
  }

  override def advance(): Unit = {
    val cursor = queue.poll()
    cursor.next()
    enqueue(cursor)
  }

  override def close(): Unit = {
    queue.forEach(_.close())
    queue.clear()
  }
}
