package io.tailrace.sync

import io.tailrace.common.StepwiseRows
import io.tailrace.state.{LiveSection, RunCursor}

/** The right rows of some sections that nobody has joined, up to a time. Each is where the cursor is, until the next step.
  *
  * @param sections with their numbers in the index
  */
private[sync] final class ExpiringRight(
    sections: Seq[(LiveSection, Int)],
    through: Long,
    index: RightIndex,
    hash: KeyHash
) extends StepwiseRows[RunCursor]
    with AutoCloseable {
  private val pending = sections.iterator
  private var cursor: Option[RunCursor] = None
  private var number = 0
  private var isPassed = false

  override protected def step(): RunCursor = cursor match {
    case Some(at) if at.isValid && !isPassed =>
      isPassed = true
      if (isLive(at)) at else null
    case Some(at) if at.isValid =>
      isPassed = false
      at.next()
      null
    case _ =>
      close()
      if (pending.hasNext) open(pending.next()) else end()
      null
  }

  private def isLive(row: RunCursor): Boolean =
    row.time <= through && index.contains(hash.of(row.base, row.at), number, row.seq)

  private def open(section: (LiveSection, Int)): Unit = {
    val opened = section._1.cursor()
    cursor = Some(opened)
    number = section._2
    opened.first()
  }

  override def close(): Unit = {
    cursor.foreach(_.close())
    cursor = None
  }
}
