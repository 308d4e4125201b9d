package io.tailrace.state

import org.apache.spark.unsafe.Platform

/** Which rows of a store that [[StoreKind.keepsNewest]] still count. Nobody asks for a key's newest row at or
  * before a time up to `through` any more. So of the rows up to there the newest one of each key counts, and of
  * several of one time the last by content:
  *
  * {{{
  *   through = 12:10     (A,12:01) (A,12:05) (A,12:20)   (B,11:00)
  *   counts                        (A,12:05) (A,12:20)   (B,11:00)
  * }}}
  *
  * A row that another one in the same merge makes needless is needless whatever other runs have.
  *
  * @param gone rows up to this time are too old for anybody
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

  /** Fewer small runs aren't merged: a merged run is a file of its own in the checkpoint. */
  private val FewRuns = 8
  private val LargeBytes = 4L << 20

  /** @param state whose rows are merged */
  def of(state: LoadedState): NewestRows =
    NewestRows(state.manifest.rightExpiredThrough, state.droppedThrough(StoreKind.RightNewest))

  /** The runs to merge next, oldest first, or none. All are merged when those behind the first one have become
    * as large as it is:
    *
    * {{{
    *   100 MB | 3 MB  3 MB  1 MB  ...        wait
    *   100 MB | 40 MB  35 MB  25 MB  1 MB    merge: 100 MB, if the keys are the same
    * }}}
    *
    * So the state is at most twice as large as what counts, and a few small runs; each byte that is written
    * costs two that are merged, at the most. A large run that came with many rows of few keys is merged by
    * itself as soon as nobody looks between them.
    *
    * @param fanIn so many small runs are worth a merge at the most
    */
  def due(manifest: Manifest, fanIn: Int): Seq[Run] = {
    val runs = manifest.runs
    if (!runs.exists(_.sections.exists(_.kind.keepsNewest))) Nil
    else {
      // Those of other columns stay as they are.
      val schema = Compaction.schema(runs.last)
      val like = runs.drop(runs.lastIndexWhere(Compaction.schema(_) != schema) + 1)
      val young = like.tail.map(bytes).sum
      val isWorth = like.size >= Math.min(FewRuns, fanIn) || young >= LargeBytes
      if (like.size > 1 && young >= bytes(like.head) && isWorth) like
      else like.find(isRepetitive(_, manifest.rightExpiredThrough)).toSeq
    }
  }

  private def bytes(run: Run): Long =
    run.sections.map(s => if (s.rows == 0) 0L else (s.bytes.toDouble * s.liveRows / s.rows).toLong).sum

  private def isRepetitive(run: Run, through: Long): Boolean = run.sections.exists { s =>
    s.kind.keepsNewest && s.maxTime <= through && s.bytes >= LargeBytes && s.rows > 2 * s.keys
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
