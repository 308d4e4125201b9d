package io.tailrace.replay

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Judges the records of one task, in their order: against the marks that the batch begins with, and against
  * the records before them in the task. It is an error if records of an origin come from two partitions in a
  * batch: the marks of one partition say nothing of the records of the other. From batch to batch an origin
  * may move to another partition, but not to offsets below its mark.
  *
  * @param forgottenBefore origins that were last seen before this time, in ms, are judged as new
  * @param report          tells the driver, which knows the origins of other tasks
  */
final class ReplayTask(
    base: MarkTable,
    reader: MetadataReader,
    clock: RecordClock,
    forgottenBefore: Long,
    report: BatchMarks.Report
) {

  /** The marks that this task has moved. */
  val moved = new MarkTable(base.disorder)

  // The gaps that the entries of `moved` had when the batch began. Later entries had none.
  private var gapsBefore = Array.emptyLongArray

  private var home = Homes.Unknown
  private var homeInBase = Homes.Unknown

  private var passed = 0L
  private var replays = 0L
  private var unprotected = 0L
  private var returned = 0L
  private var movedOrigins = 0L
  private var fromStart = 0L

  // The last origin: records of one origin mostly come one after the other.
  private var lastPid = 0L
  private var lastPartition = -1
  private var lastEntry = -1

  def counts: ReplayCounts = {
    var total = 0L
    var entry = 0
    while (entry < moved.size) {
      val before = if (entry < gapsBefore.length) gapsBefore(entry) else 0L
      total = ReplayCounts.saturated(total, moved.gaps(entry) - before)
      entry += 1
    }
    ReplayCounts(passed, replays, unprotected, reader.doubtful, total, returned, 0, mostGaps)
  }

  private def mostGaps: Seq[OriginGaps] = {
    val withGaps = (0 until moved.size).filter(moved.gaps(_) > 0)
    ReplayCounts.most(withGaps.map(e => OriginGaps(moved.pid(e), moved.partition(e), moved.gaps(e))))
  }

  /** The records that follow are read from this partition. */
  def enter(partition: String): Unit = {
    home = moved.homes.of(partition)
    homeInBase = base.homes.find(partition)
    lastPartition = -1
  }

  /** True if the row is a replay. A row without valid metadata never is: it is unknown. */
  def isReplay(row: UnsafeRow): Boolean =
    if (!reader.read(row)) {
      unprotected += 1
      false
    } else {
      val isNew = admit(reader.pid, reader.partition, reader.offset)
      moved.see(lastEntry, clock.timeMs(row))
      if (isNew) passed += 1
      else {
        replays += 1
        if (reader.offset == 0 && moved.mark(lastEntry) > 0) fromStart += 1
      }
      !isNew
    }

  /** Must be called after the last record, before Spark can take the task for done.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_REPLAY_ORIGIN_SPLIT if another task has
    *                                                   records of one of its origins
    */
  def end(): Unit = report.send(
    moved,
    Seq(
      reader.doubtful -> ReplayNotices.Doubtful,
      reader.untagged -> ReplayNotices.Untagged,
      movedOrigins -> ReplayNotices.Moved,
      fromStart -> ReplayNotices.FromStart
    ).collect { case (count, notice) if count > 0 => notice.bit }.sum
  )

  private def admit(pid: Long, partition: Int, offset: Long): Boolean =
    if (pid == lastPid && partition == lastPartition) moved.admit(lastEntry, offset)
    else {
      lastEntry = moved.find(pid, partition)
      if (lastEntry < 0) {
        val before = known(pid, partition)
        if (before >= 0) begin(before, offset)
      } else if (moved.home(lastEntry) != home) {
        throw ReplayErrors.originSplit(pid, partition, nameOf(moved, lastEntry), nameOf(home))
      }
      // Set after the checks, so an error leaves no origin behind that was not checked.
      lastPid = pid
      lastPartition = partition
      if (lastEntry >= 0) moved.admit(lastEntry, offset)
      else {
        if (base.find(pid, partition) >= 0) returned += 1
        lastEntry = moved.add(pid, partition, offset)
        moved.setHome(lastEntry, home)
        true
      }
    }

  /** Takes over the mark of an origin whose first record in this task has come, and which has had records
    * before.
    */
  private def begin(before: Int, offset: Long): Unit = {
    val isHome = base.home(before) == homeInBase && homeInBase != Homes.Unknown
    if (!isHome && base.home(before) != Homes.Unknown) {
      val mark = base.mark(before)
      if (offset <= mark && !base.isCertain(before, offset)) {
        throw ReplayErrors.originMoved(
          base.pid(before),
          base.partition(before),
          offset,
          mark,
          nameOf(base, before),
          nameOf(home)
        )
      }
      movedOrigins += 1
    }
    lastEntry = moved.append(base, before)
    if (base.gaps(before) != 0) {
      if (lastEntry >= gapsBefore.length) gapsBefore = Arrays.copyOf(gapsBefore, lastEntry * 2 + 16)
      gapsBefore(lastEntry) = base.gaps(before)
    }
    if (!isHome) moved.setHome(lastEntry, home)
  }

  private def nameOf(table: MarkTable, entry: Int): String = table.homes.name(table.home(entry)).getOrElse("")
  private def nameOf(home: Int): String = moved.homes.name(home).getOrElse("")

  /** @return the entry in `base` that the origin is judged by, or -1 */
  private def known(pid: Long, partition: Int): Int = {
    val entry = base.find(pid, partition)
    if (entry >= 0 && base.isBefore(entry, forgottenBefore)) -1 else entry
  }
}
