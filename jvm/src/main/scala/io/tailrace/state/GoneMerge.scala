package io.tailrace.state

/** Which rows a merge leaves out because they are marked as gone, and which marks it leaves out with them:
  *
  * {{{
  *   runs                                      merged: all              merged: the last two
  *   left 1 2 3 | left 4 5, gone 2 | gone 1 4  left 3 5                 left 5, gone 1 2
  * }}}
  *
  * A mark stays as long as its row may be in a run that isn't merged: the row is in an earlier run than its mark, or
  * in the same one.
  *
  * Rows of two stores have left by their times, too: left rows that are found by key, and right rows that are passed.
  *
  * @param manifest of the version that was merged
  * @param gone   rows by the store that they are in
  * @param marks  the sections that say so
  * @param isFull whether no run is before those that are merged: then no mark in them is needed any more
  */
private[state] final class GoneMerge(
    manifest: Manifest,
    gone: Map[StoreKind, GoneRows],
    val marks: Seq[LiveSection],
    isFull: Boolean
) {
  // Rows are written before marks: kinds come in ascending order of their ids.
  private val leftOut = gone.map { case (kind, _) => kind -> new GoneRows }

  /** Writes the rows, or marks, that are still needed. */
  def write(kind: StoreKind, rows: MergedSections, writer: RunWriter): Unit = while (!rows.isEmpty) {
    if (isNeeded(kind, rows.head)) writer.append(rows.head.base, rows.head.at)
    rows.drop()
  }

  private def isNeeded(kind: StoreKind, row: RunCursor): Boolean = kind.marks match {
    case Some(of) => !isFull && !leftOut.get(of).exists(_.contains(row.seq))
    case None =>
      val isGone = gone.get(kind).exists(_.contains(row.seq))
      if (isGone) leftOut(kind).add(row.seq)
      !isGone && row.time > leftThrough(kind)
  }

  private def leftThrough(kind: StoreKind): Long = kind match {
    case StoreKind.LeftKeySorted => manifest.expiredThrough
    case StoreKind.RightTimeSorted => manifest.rightExpiredThrough
    case _ => Long.MinValue
  }

  /** True if the rows that were left out don't count in a version either. */
  def fits(later: Manifest): Boolean =
    later.expiredThrough >= manifest.expiredThrough && later.rightExpiredThrough >= manifest.rightExpiredThrough
}

private[state] object GoneMerge {

  /** Fewer small runs aren't merged: a merged run is a file of its own in the checkpoint. */
  private val FewRuns = 8
  private val LargeBytes = 4L << 20

  /** @param state  a version
    * @param inputs the sections that are merged, of neighbouring runs
    */
  def of(state: LoadedState, inputs: Seq[LiveSection]): GoneMerge = {
    val kinds = inputs.flatMap(live => live.section.kind.marks.toSeq :+ live.section.kind).distinct
    val marks = kinds.flatMap(GoneRows.marking(state.sections, _))
    val gone = kinds.map(kind => kind -> GoneRows.of(state.sections, kind)).toMap
    new GoneMerge(state.manifest, gone, marks, inputs.exists(_.local eq state.runs.head))
  }

  /** The runs to merge next, oldest first, or none. All are merged when more of their rows are gone than count:
    *
    * {{{
    *   1,000 rows count, 300 are gone        wait
    *   1,000 rows count, 1,000 are gone      merge: 1,000 rows, and no mark
    * }}}
    *
    * So at most half of the rows in files are gone, but in a few small runs, and each row that goes costs one row that
    * is written again, at the most.
    *
    * @param fanIn so many small runs are worth a merge at the most
    */
  def due(manifest: Manifest, fanIn: Int): Seq[Run] = {
    def has(run: Run)(is: StoreKind => Boolean) = run.sections.exists(s => is(s.kind))
    if (!manifest.runs.exists(has(_)(kind => kind.compacts && !kind.hasRows))) Nil
    else {
      // Those of other columns stay as they are.
      val schema = Compaction.schema(manifest.runs.last)
      val like = manifest.runs.drop(manifest.runs.lastIndexWhere(Compaction.schema(_) != schema) + 1)
      val marked = like.flatMap(_.sections).filter(s => StoreKind.all.exists(_.marks.contains(s.kind)))
      val dead = marked.map(_.expiredRows).sum
      val isWorth = like.size >= Math.min(FewRuns, fanIn) || deadBytes(marked) >= LargeBytes
      if (dead > 0 && dead >= marked.map(_.liveRows).sum && isWorth) like else Nil
    }
  }

  private def deadBytes(sections: Seq[Section]): Double =
    sections.map(s => s.bytes.toDouble * s.expiredRows / Math.max(1L, s.rows)).sum
}
