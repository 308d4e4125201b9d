package io.tailrace.state

import java.util.concurrent.{CyclicBarrier, ExecutorService, RejectedExecutionException}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.SparkState
import org.apache.spark.unsafe.Platform

import io.tailrace.common.ProcessPart

/** Merges several runs into one, so that many small batches leave few files to open, to name and to merge:
  *
  * {{{
  *   level 0   r1 r2 r3 ... r32   ──merge, section by section──>   level 1   R1
  *             left 12:00 | 12:07                                            left 12:00 | 12:07
  *             right 12:00 | 12:07                                           right 12:00 | 12:07
  * }}}
  *
  * A run is compacted only with neighbours of its own level. So a row is written once a level, and a level
  * has at most `fanIn` - 1 runs. It is compacted only with runs of its own schema, too, and keeps it: a query
  * that goes back to earlier columns finds its rows as they were.
  */
object Compaction {

  /** The runs to merge next: the first `fanIn` neighbours of one level, oldest first, or none. An operator
    * whose store isn't compacted rewrites its runs itself.
    */
  def due(runs: Seq[Run], fanIn: Int): Seq[Run] =
    if (!runs.forall(_.sections.forall(_.kind.compacts))) Nil
    else {
      val neighbours = runs.sliding(fanIn).filter(_.size == fanIn)
      neighbours
        .find(group =>
          group.forall(run => run.level == group.head.level && schema(run) == schema(group.head))
        )
        .getOrElse(Nil)
    }

  /** A batch writes all rows of a run with one schema. */
  private def schema(run: Run): Int = run.sections.headOption.fold(0)(_.schema)

  /** Fewer small runs aren't merged all at once: a merged run is a file of its own in the checkpoint. */
  private val FewRuns = 8
  private[state] val LargeBytes: Long = 4L << 20

  /** The runs, oldest first, that can be merged all at once: those of other columns stay as they are. */
  private[state] def mergeable(runs: Seq[Run]): Seq[Run] = {
    val newest = schema(runs.last)
    runs.drop(runs.lastIndexWhere(schema(_) != newest) + 1)
  }

  /** True if it is worth a new file to merge runs all at once.
    *
    * @param fanIn this many small runs are worth it, if that is fewer than [[FewRuns]]
    * @param bytes that the merge removes, or writes for the first time
    */
  private[state] def isWorth(runs: Seq[Run], fanIn: Int, bytes: Double): Boolean =
    runs.size >= Math.min(FewRuns, fanIn) || bytes >= LargeBytes.toDouble

  /** Writes the rows that have not expired into one run. Sections of one store and bucket become one.
    *
    * @param newest which rows count of stores that keep the newest row of a key
    * @param gone   which rows count of the others
    * @return the sections of the new run; none if all rows have left: then the file isn't needed
    */
  def merge(
      sections: Seq[LiveSection],
      newest: NewestRows,
      gone: GoneMerge,
      writer: RunWriter
  ): Seq[Section] = {
    val groups = sections.groupBy(s => (s.section.kind.id, s.section.bucket))
    groups.toSeq.sortBy(_._1).foreach { case ((_, bucket), parts) =>
      val kind = parts.head.section.kind
      writer.begin(kind, bucket)
      val rows = new MergedSections(parts, RunCursor.inOrder(kind.order), gone.through(kind))
      try if (kind.keepsNewest) newest.write(rows, writer) else gone.write(kind, rows, writer)
      finally rows.close()
      writer.end()
    }
    if (writer.sections.nonEmpty) writer.finish()
    writer.sections
  }
}

/** A run with the living rows of `inputs`. It replaces them in a later version, once.
  *
  * @param inputs as they were when their rows were read
  * @param newest which rows were left out where a newer one counts
  * @param gone   which rows were left out because they had left
  * @param local  held by the owner of this object
  * @param shapes how its rows are read
  */
private[state] final class Compacted(
    inputs: Seq[LiveSection],
    newest: NewestRows,
    gone: GoneMerge,
    val run: Run,
    val local: LocalRun,
    shapes: RowShapes
) {
  private val inputRuns = inputs.map(_.local.name).toSet

  def replaces(local: LocalRun): Boolean = inputRuns(local.name)

  /** True if a version can use it. Inputs that the version doesn't have must be dead: otherwise rows of a
    * batch that isn't in the version would come into it. Rows that were left out must have expired too, or be
    * marked in the version.
    */
  def fits(state: LoadedState): Boolean = {
    val present = state.sections.iterator.map(sectionId).toSet
    gone.fits(state.manifest.expiry) &&
    (state.manifest.rightExpiredThrough >= newest.through || !run.sections.exists(_.kind.keepsNewest)) &&
    (inputs ++ gone.marks).forall { s =>
      present(sectionId(s)) || s.section.maxTime <= state.droppedThrough(s.section.kind)
    } &&
    inputs.exists(s => present(sectionId(s)))
  }

  /** The sections of a version that it fits, with its own ones instead of the inputs. Rows that have expired
    * since the inputs were read count as expired in its own.
    */
  def replaceIn(sections: Seq[LiveSection]): Seq[LiveSection] = {
    val (replaced, kept) = sections.partition(s => replaces(s.local))
    val now = replaced.map(s => sectionId(s) -> s.section).toMap
    // Rows of a store that keeps the newest of a key leave with their sections only.
    val expiring = inputs.filterNot(_.section.kind.keepsNewest)
    val expiredSince = expiring.groupMapReduce(s => (s.section.store, s.section.bucket)) { s =>
      now.get(sectionId(s)).fold(s.section.rows)(_.expiredRows) - s.section.expiredRows
    }(_ + _)
    val own = run.sections.map { section =>
      val expired = expiredSince.getOrElse((section.store, section.bucket), 0L)
      new LiveSection(local, section.copy(expiredRows = Math.min(section.rows, expired)), shapes)
    }
    own ++ kept
  }

  private def sectionId(s: LiveSection): (String, String, Long) =
    (s.local.name, s.section.store, s.section.bucket)
}

/** Compacts the runs of one partition's state in the background, one compaction at a time, in threads that
  * all partitions of the executor share. The new run waits here until a batch commits a version with it.
  *
  * {{{
  *   commit of version 41 ──> 32 runs of level 0: submit ──> merge, upload ──> ready
  *   batch of version 47: begins with `ready` in place of the 32 runs; its manifest names the new run instead
  * }}}
  *
  * A compaction that fails or is lost leaves the runs as they are.
  *
  * @param isIn called when a new run is in the checkpoint
  */
private[state] final class Compactor(
    fanIn: Int,
    versionsToRetain: Int,
    stateLog: StateLog,
    shapes: RowShapes,
    isIn: (LocalRun, Run) => Unit,
    newLocalRun: String => LocalRun
) extends Logging {
  private var busy = false
  private var closed = false
  private var ready: Option[Compacted] = None
  private var failedAt = Long.MinValue

  /** Begins a compaction if one is due. The runs of `state` are in use until it has ended. */
  def submit(state: LoadedState): Unit = synchronized {
    val due = if (busy || closed || ready.nonEmpty) Nil else dueIn(state.manifest)
    // What made the last one fail may last: don't try again with each batch.
    if (due.nonEmpty && state.manifest.version >= failedAt + fanIn) {
      val names = due.iterator.map(_.name).toSet
      val inputs = state.sections.filter(s => names(s.local.name))
      // While a partition's runs are coming, the thread would wait for them.
      if (!inputs.exists(_.local.isComing)) begin(state, inputs, levelOf(due))
    }
  }

  private def dueIn(manifest: Manifest): Seq[Run] = {
    val own = NewestRows.due(manifest, fanIn) ++ GoneMerge.due(manifest, fanIn)
    if (own.nonEmpty) own else Compaction.due(manifest.runs, fanIn)
  }

  private def levelOf(merged: Seq[Run]): Int = {
    val highest = merged.map(_.level).max
    if (merged.size > 1) highest + 1 else highest
  }

  private def begin(state: LoadedState, inputs: Seq[LiveSection], level: Int): Unit = {
    state.acquire()
    busy = true
    try Compactor.threads.execute(() => compact(state, inputs, level))
    catch {
      case e: RejectedExecutionException =>
        busy = false
        state.release()
        throw e
    }
  }

  private def compact(state: LoadedState, inputs: Seq[LiveSection], level: Int): Unit =
    try {
      val outcome = write(state, inputs, level)
      synchronized {
        if (closed) outcome.foreach(_.local.release()) else ready = outcome
      }
    } catch {
      // The state is as it was. A read error of the inputs will be the query's when it meets it.
      case NonFatal(e) =>
        logWarning(s"Compaction of ${runsOf(inputs)} runs failed; they stay as they are", e)
        synchronized { failedAt = state.manifest.version }
    } finally {
      state.release()
      synchronized { busy = false }
    }

  private def runsOf(sections: Seq[LiveSection]): Int = sections.map(_.local.name).distinct.size

  /** The new run, complete and in the checkpoint; held once. */
  private def write(state: LoadedState, inputs: Seq[LiveSection], level: Int): Option[Compacted] = {
    val local = newLocalRun(StateFileNames.run(state.manifest.version + 1))
    local.acquire()
    try {
      val newest = NewestRows.of(state)
      val gone = GoneMerge.of(state, inputs)
      val writer = new RunWriter(local.file)
      val sections =
        try Compaction.merge(inputs.map(_.asWritten), newest, gone, writer)
        finally writer.close()
      def compacted(run: Run) = Some(new Compacted(inputs, newest, gone, run, local, shapes))
      if (sections.nonEmpty) {
        val written = sections.map(_.copy(schema = inputs.head.section.schema))
        val run =
          stateLog.upload(WrittenFile.ofRun(local.file), local.name).copy(sections = written, level = level)
        isIn(local, run)
        logInfo(s"Compacted ${runsOf(inputs)} runs into ${run.name}, level $level")
        compacted(run)
      } else if (gone.marks.nonEmpty) {
        // Marked rows leave with their runs, and no time drops these soon. The next version names none of them.
        compacted(Run(local.name, 0L, 0L, Nil, level))
      } else {
        local.release()
        None
      }
    } catch {
      case e: Throwable =>
        local.release()
        throw e
    }
  }

  /** The new run, if a batch that begins with `state` can use it; held for the caller too. */
  def adopt(state: LoadedState): Option[Compacted] = synchronized {
    // A purge may already have taken the file for an orphan, if versions have passed it by.
    if (ready.exists(tooOld(_, state))) dropReady()
    val fitting = ready.filter(_.fits(state))
    fitting.foreach(_.local.acquire())
    fitting
  }

  private def tooOld(compacted: Compacted, state: LoadedState): Boolean =
    StateFileNames.runVersion(compacted.run.name).forall(_ < state.manifest.version + 2 - versionsToRetain)

  /** Drops a new run that is part of the committed version, or that no later version can use. */
  def committed(state: LoadedState): Unit = synchronized {
    if (ready.exists(c => state.runs.exists(_ eq c.local) || !c.fits(state))) dropReady()
  }

  private def dropReady(): Unit = {
    ready.foreach(_.local.release())
    ready = None
  }

  def close(): Unit = synchronized {
    closed = true
    dropReady()
  }
}

private[state] object Compactor {

  /** One thread for four cores: compaction must not take the cores that the batches need. */
  private val Threads = Math.max(1, Runtime.getRuntime.availableProcessors / 4)

  private val part = new ProcessPart("compaction")(SparkState.threads("tailrace-compaction", Threads))
  private def threads: ExecutorService = part.here

  /** Waits until all submitted compactions have ended, for tests. */
  private[state] def awaitEnd(): Unit = synchronized {
    val allAreFree = new CyclicBarrier(Threads)
    val waiting = (1 to Threads).map(_ => threads.submit(() => allAreFree.await()))
    waiting.foreach(_.get())
  }
}

/** Leaves out the rows that have left the state, and the tombstones that nobody needs any longer:
  *
  * {{{
  *   runs                                                    merged: all     merged: the last two
  *   left 1 2 3 | left 4 5, tombstone 2 | tombstones 1 4     left 3 5        left 5, tombstones 1 2
  * }}}
  *
  * A tombstone stays as long as its row may be in a run that isn't merged: the row is in an earlier run than its
  * tombstone, or in the same one.
  *
  * @param living the rows that count in the version that is merged
  * @param marks  the sections with tombstones of rows of the merged stores
  * @param isFull true if no run is before those that are merged: then no tombstone in them is needed any longer
  */
private[state] final class GoneMerge(living: LivingRows, val marks: Seq[LiveSection], isFull: Boolean) {
  // The rows with tombstones that were left out, by their store.
  private val leftOut = mutable.HashMap.empty[StoreKind, GoneRows]

  /** Rows of a store up to this time have left. */
  def through(kind: StoreKind): Long = living.in(kind).through

  /** Writes the rows, or tombstones, that are still needed. Rows come before their tombstones: stores are written in
    * ascending order of their ids.
    */
  def write(kind: StoreKind, rows: MergedSections, writer: RunWriter): Unit = {
    val rule = living.in(kind)
    val dropped = leftOut.getOrElseUpdate(kind.marks.getOrElse(kind), new GoneRows)
    while (!rows.isEmpty) {
      val row = rows.head
      val isNeeded =
        if (!kind.hasRows) !isFull && !dropped.contains(row.seq)
        else {
          if (rule.gone.contains(row.seq)) dropped.add(row.seq)
          rule.counts(row)
        }
      if (isNeeded) writer.append(row.base, row.at)
      rows.drop()
    }
  }

  /** True if the rows that were left out by their times don't count in a version either. */
  def fits(later: Expiry): Boolean = living.expiry.isWithin(later)
}

private[state] object GoneMerge {

  /** @param state  a version
    * @param inputs the sections that are merged, of neighbouring runs
    */
  def of(state: LoadedState, inputs: Seq[LiveSection]): GoneMerge = {
    val stores = inputs.map(live => live.section.kind.marks.getOrElse(live.section.kind)).distinct
    val marks = stores.flatMap(GoneRows.marking(state.sections, _))
    new GoneMerge(LivingRows.of(state), marks, inputs.exists(_.local eq state.runs.head))
  }

  /** The runs to merge next, oldest first, or none. All are merged when at least as many of their rows are dead as count:
    *
    * {{{
    *   1,000 rows count, 300 are dead        wait
    *   1,000 rows count, 1,000 are dead      merge: 1,000 rows, and no tombstone
    * }}}
    *
    * So at most half of the rows in files are dead, except in a few small runs, and each row that leaves costs at most one
    * row that is written again.
    *
    * @param fanIn see [[Compaction.isWorth]]
    */
  def due(manifest: Manifest, fanIn: Int): Seq[Run] = {
    def has(run: Run)(is: StoreKind => Boolean) = run.sections.exists(s => is(s.kind))
    if (!manifest.runs.exists(has(_)(kind => kind.compacts && !kind.hasRows))) Nil
    else {
      val like = Compaction.mergeable(manifest.runs)
      val marked = like.flatMap(_.sections).filter(s => StoreKind.all.exists(_.marks.contains(s.kind)))
      val dead = marked.map(_.expiredRows).sum
      val isWorth = Compaction.isWorth(like, fanIn, deadBytes(marked))
      if (dead > 0 && dead >= marked.map(_.liveRows).sum && isWorth) like else Nil
    }
  }

  private def deadBytes(sections: Seq[Section]): Double =
    sections.map(s => s.bytes.toDouble * s.expiredRows / Math.max(1L, s.rows)).sum
}

/** The rows that count in a store that [[StoreKind.keepsNewest]]. No left row looks for a key's newest row at or
  * before `through` any longer. So of the rows up to there only the newest of each key counts, and of several of one
  * time the last by content:
  *
  * {{{
  *   through = 12:10     (A,12:01) (A,12:05) (A,12:20)   (B,11:00)
  *   counts                        (A,12:05) (A,12:20)   (B,11:00)
  * }}}
  *
  * A row that another one in the same merge supersedes is superseded whatever other runs have.
  *
  * @param gone rows up to this time are too old for every left row
  */
private[state] final case class NewestRows(through: Long, gone: Long) {

  /** Writes the rows that count. They must come by key and time. */
  def write(rows: MergedSections, writer: RunWriter): Unit = {
    val held = new HeldRow
    while (!rows.isEmpty) {
      val row = rows.head
      if (row.time > gone) {
        val isSettled = row.time <= through
        if (!isSettled || !held.isMadeNeedlessBy(row)) held.flush(writer)
        if (!isSettled) writer.append(row.base, row.at)
        else if (!held.isFull || !held.isAfter(row)) held.take(row)
      }
      rows.drop()
    }
    held.flush(writer)
  }
}

private[state] object NewestRows {

  /** @param state whose rows are merged */
  def of(state: LoadedState): NewestRows =
    NewestRows(state.manifest.rightExpiredThrough, state.droppedThrough(StoreKind.RightNewest))

  /** The runs to merge next, oldest first, or none. All are merged when those after the first one have become
    * as large as it is:
    *
    * {{{
    *   100 MB | 3 MB  3 MB  1 MB  ...        wait
    *   100 MB | 40 MB  35 MB  25 MB  1 MB    merge: 100 MB, if the keys are the same
    * }}}
    *
    * So the state is at most twice as large as what counts, plus a few small runs; each byte that is written
    * costs at most two that are merged. A large run that came with many rows of few keys is merged alone as soon as
    * nobody looks between them.
    *
    * @param fanIn see [[Compaction.isWorth]]
    */
  def due(manifest: Manifest, fanIn: Int): Seq[Run] = {
    val runs = manifest.runs
    if (!runs.exists(_.sections.exists(_.kind.keepsNewest))) Nil
    else {
      val like = Compaction.mergeable(runs)
      val young = like.tail.map(bytes).sum
      if (like.size > 1 && young >= bytes(like.head) && Compaction.isWorth(like, fanIn, young.toDouble)) like
      else like.find(isRepetitive(_, manifest.rightExpiredThrough)).toSeq
    }
  }

  private def bytes(run: Run): Long =
    run.sections.map(s => if (s.rows == 0) 0L else (s.bytes.toDouble * s.liveRows / s.rows).toLong).sum

  private def isRepetitive(run: Run, through: Long): Boolean = run.sections.exists { s =>
    s.kind.keepsNewest && s.maxTime <= through && s.bytes >= Compaction.LargeBytes && s.rows > 2 * s.keys
  }
}

/** A copy of a row. */
private final class HeldRow {
  private val start = Platform.BYTE_ARRAY_OFFSET.toLong
  private var bytes = new Array[Byte](256)
  private var full = false

  def isFull: Boolean = full

  def take(row: RunCursor): Unit = {
    val length = Math.toIntExact(RowLayout.length(row.base, row.at))
    if (bytes.length < length) bytes = new Array[Byte](Math.max(length, bytes.length * 2))
    Platform.copyMemory(row.base, row.at, bytes, start, length.toLong)
    full = true
  }

  /** True if a row that isn't before it has its key. */
  def isMadeNeedlessBy(row: RunCursor): Boolean = full && row.compareKey(bytes, start) == 0

  /** True if it is the later one by content of two rows of one key and time. */
  def isAfter(row: RunCursor): Boolean =
    isMadeNeedlessBy(row) && row.time == RowLayout.time(bytes, start) &&
      RowLayout.compareValues(bytes, start, row.base, row.at) > 0

  def flush(writer: RunWriter): Unit = if (full) {
    writer.append(bytes, start)
    full = false
  }
}
