package io.tailrace.sync

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.XXH64

import io.tailrace.state.{GoneRows, LiveSection, RowLayout, StoreKind, TailraceStateStore}

/** The memory that a version's right rows have from batch to batch: their index, and the numbers of the
  * sections in it, by run and bucket. All of it can be made again from the state.
  */
private[sync] final class RightMemory {
  val index = new RightIndex
  val numbers = mutable.HashMap.empty[(String, Long), Int]
}

private[sync] object RightMemory {

  /** The key of a section in `numbers`. */
  def key(live: LiveSection): (String, Long) = (live.local.name, live.section.bucket)

  /** Makes it from all right rows of a version. */
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

/** A hash of a row's key. The upper 48 bits count. Two keys may have the same hash. */
abstract class KeyHash {

  /** @param base see [[io.tailrace.state.RowLayout]] */
  def of(base: AnyRef, at: Long): Long
}

object KeyHash {

  /** It is never written to disk, so it may change. */
  object XX64 extends KeyHash {
    override def of(base: AnyRef, at: Long): Long =
      XXH64.hashUnsafeBytes(base, RowLayout.keyAt(at), RowLayout.keyLength(base, at), 0L)
  }
}
