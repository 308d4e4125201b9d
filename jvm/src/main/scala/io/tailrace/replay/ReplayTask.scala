package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Judges the records of one task, in their order: against the marks that the batch begins with, and against those that
  * came before them in the task.
  */
final class ReplayTask(base: MarkTable, reader: MetadataReader) {

  /** The marks that this task has moved. */
  val moved = new MarkTable(base.disorder)

  var passed = 0L
  var replays = 0L
  var unprotected = 0L

  // Records of one origin mostly come one after the other.
  private var lastPid = 0L
  private var lastPartition = -1
  private var lastEntry = -1

  /** Offsets that have not come, of the origins that this task has seen, less those that had not come before it. */
  def newGaps: Long = {
    var gaps = 0L
    var entry = 0
    while (entry < moved.size) {
      val before = base.find(moved.pid(entry), moved.partition(entry))
      gaps += moved.gaps(entry) - (if (before >= 0) base.gaps(before) else 0L)
      entry += 1
    }
    gaps
  }

  /** Whether the row is a replay. One without valid metadata never is, for nobody can tell. */
  def isReplay(row: UnsafeRow): Boolean =
    if (!reader.read(row)) {
      unprotected += 1
      false
    } else {
      val isNew = admit(reader.pid, reader.partition, reader.offset)
      if (isNew) passed += 1 else replays += 1
      !isNew
    }

  private def admit(pid: Long, partition: Int, offset: Long): Boolean =
    if (pid == lastPid && partition == lastPartition) moved.admit(lastEntry, offset)
    else {
      lastPid = pid
      lastPartition = partition
      lastEntry = moved.find(pid, partition)
      if (lastEntry >= 0) moved.admit(lastEntry, offset)
      else {
        val known = base.find(pid, partition)
        if (known >= 0) {
          lastEntry = moved.put(base, known)
          moved.admit(lastEntry, offset)
        } else {
          lastEntry = moved.add(pid, partition, offset)
          true
        }
      }
    }
}
