package io.tailrace.sync

import scala.collection.mutable

import io.tailrace.state._

/** The left rows of the state in one batch.
  *
  * @param through rows up to this time are released
  */
private[sync] final class HeldLeft(store: TailraceStateStore, through: Long) {
  private val before = store.expiredThrough
  private val taken = mutable.HashMap.empty[(String, Long), Long]
  private var gone = 0L

  private def key(live: LiveSection): (String, Long) = (live.local.name, live.section.bucket)

  /** Hands out the living rows of a run. The caller then drops the run.
    *
    * @param release takes the row at the cursor, which is released
    * @param keep    takes the row at the cursor, which waits
    */
  def carry(run: LocalRun, release: RunCursor => Unit, keep: RunCursor => Unit): Unit =
    sections.filter(_.local eq run).foreach { live =>
      read(live) { cursor =>
        while (cursor.isValid) {
          if (cursor.time <= through) {
            release(cursor)
            gone += 1
          } else keep(cursor)
          cursor.next()
        }
      }
    }

  /** Hands out all rows that are released. */
  def release(row: RunCursor => Unit): Unit =
    sections.filter(_.section.minTime <= through).foreach { live =>
      read(live) { cursor =>
        var count = 0L
        while (cursor.isValid && cursor.time <= through) {
          row(cursor)
          count += 1
          cursor.next()
        }
        taken(key(live)) = count
        gone += count
      }
    }

  private def sections: Seq[LiveSection] = store.sectionsOf(StoreKind.HeldLeft)

  private def read(live: LiveSection)(body: RunCursor => Unit): Unit = {
    val cursor = live.cursor()
    try {
      cursor.firstAfter(before)
      body(cursor)
    } finally cursor.close()
  }

  /** Tells the store which rows have come out. @return how many have */
  def settle(): Long = {
    store.markExpired(StoreKind.HeldLeft, through, live => taken.getOrElse(key(live), 0L))
    store.dropThrough(StoreKind.HeldLeft, through)
    gone
  }
}
