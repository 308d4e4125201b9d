package io.tailrace.sync

import scala.collection.mutable

import io.tailrace.state.{GoneRows, LiveSection, StoreKind, TailraceStateStore}

/** What is kept in memory of a version's right rows, from batch to batch: their index, and the sections' numbers in it, by
  * run and bucket. All of it can be made again from the state.
  */
private[sync] final class RightMemory {
  val index = new RightIndex
  val numbers = mutable.HashMap.empty[(String, Long), Int]
}

private[sync] object RightMemory {

  /** Where a section's number is kept. */
  def key(live: LiveSection): (String, Long) = (live.local.name, live.section.bucket)

  /** Reads all right rows of a version. */
  def read(store: TailraceStateStore, hash: KeyHash): RightMemory = {
    val memory = new RightMemory
    val gone = GoneRows.of(store.sectionsOf(StoreKind.JoinedRight), StoreKind.HeldRight)
    store.sectionsOf(StoreKind.HeldRight).foreach { live =>
      val number = memory.index.newSection()
      memory.numbers(key(live)) = number
      live.foreachRow { cursor =>
        if (!gone.contains(cursor.seq)) {
          memory.index.insert(hash.of(cursor.base, cursor.at), number, cursor.seq)
        }
      }
    }
    memory
  }
}
