package io.tailrace.state

import java.util.concurrent.{CyclicBarrier, ExecutorService, RejectedExecutionException}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.SparkState

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
  private[state] def schema(run: Run): Int = run.sections.headOption.fold(0)(_.schema)

  /** Writes the rows that have not expired into one run. Sections of one store and bucket become one.
    *
    * @param expiredThrough rows of a left-time-sorted store up to this time (microseconds) are left out
    * @param newest         which rows count of stores that keep the newest row of a key
    * @param gone           which rows don't count, because they are marked
    * @return the sections of the new run; none if all rows have expired: then the file isn't needed
    */
  def merge(
      sections: Seq[LiveSection],
      expiredThrough: Long,
      newest: NewestRows,
      gone: GoneMerge,
      writer: RunWriter
  ): Seq[Section] = {
    val groups = sections.groupBy(s => (s.section.kind.id, s.section.bucket))
    groups.toSeq.sortBy(_._1).foreach { case ((_, bucket), parts) =>
      val kind = parts.head.section.kind
      writer.begin(kind, bucket)
      // A mark leaves with its row's time, and right rows may be needed behind the left rows that are out.
      val from = if (kind == StoreKind.GoneRight) Long.MinValue else expiredThrough
      val rows = new MergedSections(parts, kind.order, from)
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
  * @param inputs         as they were when their rows were read
  * @param expiredThrough rows up to this time were left out
  * @param newest         which rows were left out where a newer one counts
  * @param gone           which rows were left out because they are marked
  * @param local          held by the owner of this object
  * @param shapes         how its rows are read
  */
private[state] final class Compacted(
    inputs: Seq[LiveSection],
    expiredThrough: Long,
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
    state.manifest.expiredThrough >= expiredThrough && gone.fits(state.manifest) &&
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
  * @param isIn is told that a new run is in the checkpoint
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
        try Compaction.merge(inputs.map(_.asWritten), state.manifest.expiredThrough, newest, gone, writer)
        finally writer.close()
      def compacted(run: Run) =
        Some(new Compacted(inputs, state.manifest.expiredThrough, newest, gone, run, local, shapes))
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

  private lazy val threads: ExecutorService = SparkState.threads("tailrace-compaction", Threads)

  /** Waits until all submitted compactions have ended, for tests. */
  private[state] def awaitEnd(): Unit = synchronized {
    val allAreFree = new CyclicBarrier(Threads)
    val waiting = (1 to Threads).map(_ => threads.submit(() => allAreFree.await()))
    waiting.foreach(_.get())
  }
}
