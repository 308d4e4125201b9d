package io.tailrace.state

import java.util.concurrent.{ExecutorService, RejectedExecutionException}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.SparkState

/** Compacts the runs of one partition's state off the hot path, one compaction at a time, in a thread that all partitions
  * of the executor share. The outcome waits here until a batch commits a version with it.
  *
  * {{{
  *   commit of version 41 ──> 32 runs of level 0: submit ──> merge, upload ──> ready
  *   batch of version 47: begins with `ready` in place of the 32 runs; its manifest names the new run instead
  * }}}
  *
  * Nothing depends on it: a compaction that fails or is lost leaves the runs as they are.
  */
private[state] final class Compactor(
    fanIn: Int,
    versionsToRetain: Int,
    stateLog: StateLog,
    newLocalRun: String => LocalRun
) extends Logging {
  private var busy = false
  private var closed = false
  private var ready: Option[Compacted] = None
  private var failedAt = Long.MinValue

  /** Begins a compaction if one is due. The runs of `state` are in use until it has ended. */
  def submit(state: LoadedState): Unit = synchronized {
    val due = if (busy || closed || ready.nonEmpty) Nil else Compaction.due(state.manifest.runs, fanIn)
    // Whatever made the last one fail may last: not again with each batch.
    if (due.nonEmpty && state.manifest.version >= failedAt + fanIn) {
      val names = due.iterator.map(_.name).toSet
      val inputs = state.sections.filter(s => names(s.local.name))
      state.acquire()
      busy = true
      try Compactor.thread.execute(() => compact(state, inputs, due.head.level + 1))
      catch {
        case e: RejectedExecutionException =>
          busy = false
          state.release()
          throw e
      }
    }
  }

  private def compact(state: LoadedState, inputs: Seq[LiveSection], level: Int): Unit =
    try {
      val outcome = write(state, inputs, level)
      synchronized {
        if (closed) outcome.foreach(_.local.release()) else ready = outcome
      }
    } catch {
      // The state is as it was. The inputs stay in use, and a read error of theirs will be the query's when it meets it.
      case NonFatal(e) =>
        logWarning(
          s"Compaction of ${inputs.map(_.local.name).distinct.size} runs failed; they stay as they are",
          e
        )
        synchronized { failedAt = state.manifest.version }
    } finally {
      state.release()
      synchronized { busy = false }
    }

  /** The new run, complete and in the checkpoint; held once. */
  private def write(state: LoadedState, inputs: Seq[LiveSection], level: Int): Option[Compacted] = {
    val local = newLocalRun(CheckpointFiles.runName(state.manifest.version + 1))
    local.acquire()
    try {
      val writer = new RunWriter(local.file)
      val sections =
        try Compaction.merge(inputs, state.manifest.expiredThrough, writer)
        finally writer.close()
      if (sections.isEmpty) {
        local.release()
        None
      } else {
        val run = stateLog.upload(local.file, local.name).copy(sections = sections, level = level)
        logInfo(s"Compacted ${inputs.map(_.local.name).distinct.size} runs into ${run.name}, level $level")
        Some(new Compacted(inputs, state.manifest.expiredThrough, run, local))
      }
    } catch {
      case e: Throwable =>
        local.release()
        throw e
    }
  }

  /** What a batch that begins with `state` can use; held for the caller too. */
  def adopt(state: LoadedState): Option[Compacted] = synchronized {
    // A purge may already have taken the file for an orphan, if versions have passed it by.
    ready.filter(c => tooOld(c, state)).foreach(_ => dropReady())
    val fitting = ready.filter(_.fits(state))
    fitting.foreach(_.local.acquire())
    fitting
  }

  private def tooOld(compacted: Compacted, state: LoadedState): Boolean =
    CheckpointFiles.runVersion(compacted.run.name).forall(_ < state.manifest.version + 2 - versionsToRetain)

  /** A version is committed: a compaction that is part of it, or that it can't use any more, is done with. */
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

  /** One for the executor: compaction must not take the cores that the batches need. */
  private lazy val thread: ExecutorService = SparkState.oneThread("tailrace-compaction")
}
