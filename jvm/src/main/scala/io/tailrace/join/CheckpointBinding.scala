package io.tailrace.join

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.tailrace.common.Errors

/** The checkpoint that a query has at its start.
  *
  * @param told what becomes of buffered rows, because columns have changed
  */
private[join] final case class CheckpointBinding(checkpoint: JoinCheckpoint, told: Seq[String] = Nil)

private[join] object CheckpointBinding {

  /** Pins the settings of a query: writes them into a new checkpoint, or compares them with those of an existing one.
    *
    * @param batchId the batch that is being planned, the first one of this run
    * @param join    as the query has it now
    * @param sources names of the query's, if it gives them some
    * @throws io.tailrace.common.TailraceAnalysisException if the query can't resume from the checkpoint
    */
  def of(
      directory: Path,
      conf: Configuration,
      batchId: Long,
      join: StoredJoin,
      sources: Seq[String]
  ): CheckpointBinding =
    if (batchId == 0 && !JoinCheckpoint.hasState(directory, conf)) {
      val settings = join.pinned(join.columns).initial ++
        join.keptColumns.map(KeptColumns.Setting -> KeptColumns(_, batchId).text)
      CheckpointBinding(JoinCheckpoint.create(directory, conf, settings, join.columns.schema, sources))
    } else resume(directory, conf, batchId, join, sources)

  private def resume(
      directory: Path,
      conf: Configuration,
      batchId: Long,
      join: StoredJoin,
      sources: Seq[String]
  ): CheckpointBinding = {
    val written = JoinCheckpoint.read(directory, conf, batchId)
    // The state keeps the order of keys that it began with: the same ones in another order are no others.
    val pinned = join.pinned(join.columns.withKeysAsIn(written.settings))
    val resumed = pinned.resume(written.settings)
    val columns = SchemaChange.of(written, resumed.now, join.columns.schema, pinned.columnWords)
    val refused = resumed.refused(columns.isKnown) ++ columns.refused
    if (refused.nonEmpty) throw Errors.checkpointIncompatible(directory.toString, refused)
    val kept = join.keptColumns.map { needed =>
      val was = KeptColumns.of(written.settings, needed)
      was -> was.next(needed, batchId)
    }
    val bound = written.copy(
      settings = resumed.bound ++ kept.map { case (_, next) => KeptColumns.Setting -> next.text },
      schemas = columns.schemas,
      schema = columns.schema,
      grown = grown(resumed, written.grown)(firstBatch(batchId, directory, conf)),
      // A list that doesn't begin with the first batch would lack some.
      sources = if (written.sources.isEmpty) Nil else (written.sources ++ sources).distinct.sorted
    )
    CheckpointBinding(
      if (bound == written) written else JoinCheckpoint.write(directory, conf, bound),
      columns.told ++ kept.flatMap { case (was, next) => next.told(was) }
    )
  }

  /** @param first the first batch with the query's window */
  private def grown(resumed: ResumedSettings, before: Seq[Growth])(first: => Long): Seq[Growth] =
    if (!resumed.durations(JoinCheckpoint.After)) before
    else Growth.noted(before, first, JoinCheckpoint.duration(resumed.before, JoinCheckpoint.After).get)

  /** The first batch that no sink can have rows of. A window of this start counts from it. */
  private def firstBatch(batchId: Long, directory: Path, conf: Configuration): Long =
    if (JoinCheckpoint.hasVersion(directory, conf, _ == batchId + 1)) batchId + 1 else batchId
}
