package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Judges the records of one task, in their order: against the marks that the batch begins with, and against those that
  * came before them in the task.
  *
  * @param forgottenBefore marks of origins that were last seen before this time, in ms, count no more
  */
final class ReplayTask(base: MarkTable, reader: MetadataReader, clock: RecordClock, forgottenBefore: Long) {

  /** The marks that this task has moved. */
  val moved = new MarkTable(base.disorder)

  private var passed = 0L
  private var replays = 0L
  private var unprotected = 0L
  private var returned = 0L

  // Records of one origin mostly come one after the other.
  private var lastPid = 0L
  private var lastPartition = -1
  private var lastEntry = -1

  def counts: ReplayCounts = {
    val gaps = (0 until moved.size).iterator.map { entry =>
      val before = known(moved.pid(entry), moved.partition(entry))
      moved.gaps(entry) - (if (before >= 0) base.gaps(before) else 0L)
    }.sum
    ReplayCounts(passed, replays, unprotected, gaps, returned, 0, mostGaps)
  }

  private def mostGaps: Seq[OriginGaps] = {
    val withGaps = (0 until moved.size).filter(moved.gaps(_) > 0)
    ReplayCounts.most(withGaps.map(e => OriginGaps(moved.pid(e), moved.partition(e), moved.gaps(e))))
  }

  /** Whether the row is a replay. One without valid metadata never is, for nobody can tell. */
  def isReplay(row: UnsafeRow): Boolean =
    if (!reader.read(row)) {
      unprotected += 1
      false
    } else {
      val isNew = admit(reader.pid, reader.partition, reader.offset)
      moved.see(lastEntry, clock.timeMs(row))
      if (isNew) passed += 1 else replays += 1
      !isNew
    }

  private def admit(pid: Long, partition: Int, offset: Long): Boolean =
    if (pid == lastPid && partition == lastPartition) moved.admit(lastEntry, offset)
    else {
      lastPid = pid
      lastPartition = partition
      lastEntry = moved.find(pid, partition)
      if (lastEntry < 0) {
        val before = known(pid, partition)
        if (before >= 0) lastEntry = moved.append(base, before)
      }
      if (lastEntry >= 0) moved.admit(lastEntry, offset)
      else {
        if (base.find(pid, partition) >= 0) returned += 1
        lastEntry = moved.add(pid, partition, offset)
        true
      }
    }

  /** @return the entry in `base` that the origin is judged by, or -1 */
  private def known(pid: Long, partition: Int): Int = {
    val entry = base.find(pid, partition)
    if (entry >= 0 && base.isBefore(entry, forgottenBefore)) -1 else entry
  }
}

/** When a record came, for [[MarkTable.see]].
  *
  * @param ordinal  of a timestamp column, or -1 for the time of the batch
  * @param batchMs  the time of the batch
  * @param newestMs the latest time of any record before the batch: what a record without an event time is given
  */
final class RecordClock(ordinal: Int, batchMs: Long, newestMs: Long) {

  /** @return ms; never later than the batch, so that one wrong clock far in the future can't make everybody else be
    *         forgotten
    */
  def timeMs(row: UnsafeRow): Long =
    if (ordinal < 0) batchMs
    else if (row.isNullAt(ordinal)) newestMs
    else Math.min(batchMs, Math.floorDiv(row.getLong(ordinal), 1000L))
}
