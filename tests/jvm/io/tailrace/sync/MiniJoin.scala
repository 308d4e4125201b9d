package io.tailrace.sync

import scala.collection.mutable

import io.tailrace.common.Side

/** The synced join without all that makes it a Spark operator: the rules of its progress, and rows in memory.
  * An id is a key: at most one row a side has it.
  *
  * {{{
  *   read ... read ── end: judge by what was known before, release, expire; take in what was read; commit
  *                └── crash: nothing of the batch has happened; read ... again
  * }}}
  */
final class MiniJoin(val settings: SyncSettings, ids: Int) {
  import MiniJoin._

  private var rules = new SyncPartitions(settings)

  // What the state holds, by id; Unknown: nothing.
  private val lefts, rights = Array.fill(ids)(SyncTimes.Unknown)

  private val read = mutable.ArrayBuffer.empty[(Side, Int, Long)]
  private val leftReadings, rightReadings = mutable.LinkedHashMap.empty[String, PartitionReading]

  /** How often each left row has come out. */
  val out: Array[Int] = new Array(ids)

  /** Whether it came out with its right row. */
  val matched: Array[Boolean] = new Array(ids)

  /** Right rows that have gone without. */
  val expired: Array[Boolean] = new Array(ids)

  var jumps = 0L
  var late = 0L

  def partitions(side: Side): SidePartitions = rules.side(side)

  /** The times that the batch is judged by. */
  def times: SyncTimes = rules.times

  def read(side: Side, partition: String, id: Int, time: Long): Unit = {
    of(side, leftReadings, rightReadings)
      .getOrElseUpdate(
        partition,
        new PartitionReading(
          partition,
          rules.side(side).latest(partition),
          settings.syncDelay,
          rules.lateBefore(side),
          rules.missedBefore(side)
        )
      )
      .see(time)
    if (id != NoRow) read += ((side, id, time))
  }

  /** @param listed what the source says that it has, if it can say */
  def end(clockMs: Long, listed: Side => Option[Seq[ListedPartition]]): Unit = {
    join(rules.times)
    Array(leftReadings, rightReadings).foreach(_.valuesIterator.foreach { reading =>
      val part = reading.read
      jumps += part.jumps
      late += part.late
    })
    advance(clockMs, listed)
    forget()
  }

  private def join(judged: SyncTimes): Unit = {
    read.foreach { case (side, id, time) => of(side, lefts, rights)(id) = time }
    var id = 0
    while (id < ids) {
      if (lefts(id) != SyncTimes.Unknown && lefts(id) < judged.release) {
        out(id) += 1
        matched(id) = rights(id) != SyncTimes.Unknown && settings.joins(lefts(id), rights(id))
        lefts(id) = SyncTimes.Unknown
        if (matched(id)) rights(id) = SyncTimes.Unknown
      }
      if (rights(id) != SyncTimes.Unknown && rights(id) <= SyncRules.rightExpiry(judged, settings)) {
        expired(id) = true
        rights(id) = SyncTimes.Unknown
      }
      id += 1
    }
  }

  /** The query ends, whatever it has read, and goes on from its checkpoint. */
  def restart(): Unit = {
    val committed = SyncFile.encode(rules.file, "join/1")
    forget()
    rules = new SyncPartitions(settings)
    rules.restore(SyncFile.decode(committed, "progress", "join/1"))
  }

  /** The batch is written, and the query ends before it is committed: it goes on from the batch before. */
  def crash(clockMs: Long, listed: Side => Option[Seq[ListedPartition]]): Unit = {
    val before = rules
    val crashed = new SyncPartitions(settings)
    crashed.restore(before.file)
    rules = crashed
    advance(clockMs, listed)
    rules = before
    restart()
  }

  private def advance(clockMs: Long, listed: Side => Option[Seq[ListedPartition]]): Unit = {
    def batch(side: Side): SideBatch =
      SideBatch(of(side, leftReadings, rightReadings).values.map(_.read).toSeq, listed(side))
    rules.advance(batch(Side.Left), batch(Side.Right), clockMs)
  }

  private def forget(): Unit = {
    read.clear()
    leftReadings.clear()
    rightReadings.clear()
  }

  private def of[T](side: Side, left: T, right: T): T = if (side == Side.Left) left else right

  def heldRows(side: Side): Int = of(side, lefts, rights).count(_ != SyncTimes.Unknown)
}

object MiniJoin {

  private implicit class Reach(private val settings: SyncSettings) extends AnyVal {
    def joins(left: Long, right: Long): Boolean =
      right - left >= -settings.window && right - left <= Math.min(settings.window, settings.syncDelay)
  }

  /** A row without a follower. */
  val NoRow: Int = -1
}
