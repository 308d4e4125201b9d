package io.tailrace.rewrite

import io.tailrace.state._

/** Gives the rows that count of one partition's version to their new partitions. Each run is split on its own, so
  * that levels and order stay: nothing is sorted again.
  *
  * {{{
  *   6-a.run   left 12:00 | right 12:00        5-x.run of partition 1   left 12:00 | right 12:00
  *             rows of keys a b c d    ──>     5-y.run of partition 5   left 12:00
  * }}}
  *
  * Rows whose results have been emitted, and those that are marked as gone, are left out. The matches of eager
  * matching have no key of their own: they go where their left rows go, in a run of their own.
  *
  * @param bucketWidth of the sections of matches, in microseconds
  */
private[rewrite] final class LivingRows(
    state: LoadedState,
    route: RowRoute,
    bucketWidth: Long,
    newRuns: () => SplitRuns
) {
  import StoreKind.{JoinedIndicator, LeftKeySorted, RightTimeSorted}

  private val expired = state.manifest.expiredThrough
  private val gone = StoreKind.all
    .filter(marked => StoreKind.all.exists(_.marks.contains(marked)))
    .map(kind => kind -> GoneRows.of(state.sections, kind))
    .toMap

  private def sectionsOf(kind: StoreKind): Seq[LiveSection] = state.sections.filter(_.section.kind == kind)

  /** Splits the runs of a slice. All matches belong to the first one, because they need all left rows.
    *
    * @param take is called with the number of each run, and what it has become
    */
  def split(slice: Slice)(take: (Int, Seq[SplitRun]) => Unit): Unit = {
    route.begin(state)
    val numbered = state.runs.zipWithIndex.filter(_._2 % slice.of == slice.number)
    def sections(run: LocalRun) = state.sections.filter { live =>
      (live.local eq run) && live.section.kind.hasRows && live.section.kind != JoinedIndicator
    }
    LocalRun.prepare(numbered.flatMap { case (run, _) => sections(run) })
    def into(number: Int)(write: SplitRuns => Unit): Unit = {
      val runs = newRuns()
      try {
        write(runs)
        take(number, runs.finish())
      } finally runs.close()
    }
    numbered.foreach { case (run, number) => into(number)(splitRun(sections(run), _)) }
    val matches = if (slice.number == 0) sectionsOf(JoinedIndicator) else Nil
    matches.headOption.foreach(first => into(state.runs.indexOf(first.local))(splitMatches))
  }

  private def splitRun(parts: Seq[LiveSection], runs: SplitRuns): Unit =
    parts.sortBy(live => (live.section.kind.id, live.section.bucket)).foreach { live =>
      val kind = live.section.kind
      val dead = gone.get(kind)
      val leftThrough = kind match {
        case LeftKeySorted => expired
        case RightTimeSorted => state.manifest.rightExpiredThrough
        case _ => Long.MinValue
      }
      val cursor = live.cursor()
      try {
        cursor.firstAfter(expired)
        while (cursor.isValid) {
          val counts = cursor.time > leftThrough && !dead.exists(_.contains(cursor.seq))
          if (counts) append(runs, route.target(live, cursor, cursor), kind, live.section.bucket, cursor)
          cursor.next()
        }
      } finally cursor.close()
    }

  private def splitMatches(runs: SplitRuns): Unit = {
    val matches = new MatchesOfLefts(state)
    try
      while (!matches.isEmpty) {
        val joined = matches.joined
        val to = route.target(matches.sections.head, joined, matches.left)
        append(runs, to, JoinedIndicator, Math.floorDiv(joined.time, bucketWidth), joined)
        matches.drop()
      }
    finally matches.close()
  }

  private def append(runs: SplitRuns, to: Int, kind: StoreKind, bucket: Long, row: RunCursor): Unit =
    if (to != RowRoute.Nowhere) {
      val seq = route.seq(row.seq)
      // In the cursor's page, which nobody else reads.
      if (seq != row.seq) RowLayout.writeSeq(row.base, row.at, seq)
      // A match names its right row by that one's number, which changes too. Their order stays.
      if (kind == JoinedIndicator)
        MatchKey.writeRightSeq(row.base, row.at, route.seq(MatchKey.rightSeq(row.base, row.at)))
      runs.append(to, kind, bucket, row.base, row.at)
    }
}
