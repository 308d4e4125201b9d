package io.tailrace.rescale

import scala.util.control.NonFatal

import io.tailrace.common.Errors
import io.tailrace.state._

/** Splits the rows that count of one partition's version over the new partitions. Each run is split by
  * itself, so that levels and order stay: nothing is sorted again.
  *
  * {{{
  *   6-a.run   left 12:00 | right 12:00        5-x.run of partition 1   left 12:00 | right 12:00
  *             rows of keys a b c d    ──>     5-y.run of partition 5   left 12:00
  * }}}
  *
  * Rows whose results have come out, and those that are marked as gone, are left out. The matches of eager
  * matching have no key of their own: they go where their left rows go, in a run of their own.
  *
  * @param targets     where a row belongs
  * @param bucketWidth of the sections of matches, in microseconds
  */
private[rescale] final class LivingRows(
    store: TailraceStateStore,
    targets: RowTargets,
    bucketWidth: Long,
    newRuns: () => SplitRuns
) {
  import StoreKind.{JoinedIndicator, LeftKeySorted, LeftTimeSorted}

  private val expired = store.expiredThrough
  private val sections = StoreKind.all.filter(_.hasRows).flatMap(store.sectionsOf(_))
  private val gone = StoreKind.all
    .filter(marked => StoreKind.all.exists(_.marks.contains(marked)))
    .map(kind => kind -> GoneRows.of(StoreKind.all.flatMap(store.sectionsOf(_)), kind))
    .toMap

  /** @param take is called with the name of each run, and what it has become, oldest first */
  def split(take: (String, Seq[SplitRun]) => Unit): Unit = {
    val (matches, own) = sections.partition(_.section.kind == JoinedIndicator)
    LocalRun.prepare(sections)
    def into(name: String)(write: SplitRuns => Unit): Unit = {
      val runs = newRuns()
      try {
        write(runs)
        take(name, runs.finish())
      } finally runs.close()
    }
    own.map(_.local).distinct.foreach(run => into(run.name)(splitRun(own.filter(_.local eq run), _)))
    matches.headOption.foreach(first => into(first.local.name)(splitMatches(matches, _)))
  }

  private def splitRun(parts: Seq[LiveSection], runs: SplitRuns): Unit =
    parts.sortBy(live => (live.section.kind.id, live.section.bucket)).foreach { live =>
      val kind = live.section.kind
      val dead = gone.get(kind)
      val cursor = live.cursor()
      try {
        cursor.firstAfter(expired)
        while (cursor.isValid) {
          val counts =
            (kind != LeftKeySorted || cursor.time > expired) && !dead.exists(_.contains(cursor.seq))
          if (counts) append(runs, target(live, cursor), kind, live.section.bucket, cursor)
          cursor.next()
        }
      } finally cursor.close()
    }

  private def splitMatches(matches: Seq[LiveSection], runs: SplitRuns): Unit = {
    val lefts = new MergedSections(store.sectionsOf(LeftTimeSorted), LeftTimeSorted.order, expired)
    try {
      val joins = new MergedSections(matches, JoinedIndicator.order, expired)
      try
        while (!joins.isEmpty) {
          val joined = joins.head
          while (!lefts.isEmpty && lefts.head.compareTimeAndSeq(joined.time, joined.seq) < 0) lefts.drop()
          if (lefts.isEmpty || lefts.head.compareTimeAndSeq(joined.time, joined.seq) > 0)
            throw Errors.stateFileCorrupt(matches.head.local.name, "it has a match without its left row")
          val to = target(matches.head, lefts.head)
          append(runs, to, JoinedIndicator, Math.floorDiv(joined.time, bucketWidth), joined)
          joins.drop()
        }
      finally joins.close()
    } finally lefts.close()
  }

  private def target(live: LiveSection, row: RunCursor): Int =
    try targets.of(row.base, row.at)
    catch {
      case e: RowTargets.ElsewhereException =>
        throw Errors.stateFileCorrupt(live.local.name, s"it has a row of partition ${e.partition}")
      // A key that isn't of the types.
      case NonFatal(e) => throw RescaleErrors.keysUnreadable(live.local.name, targets.types, e)
    }

  private def append(runs: SplitRuns, to: Int, kind: StoreKind, bucket: Long, row: RunCursor): Unit = {
    val seq = targets.seq(row.seq).getOrElse {
      throw RescaleErrors.tooMany(s"rows of a batch in the partitions that come together, ${targets.sources}")
    }
    // In the cursor's page, which nobody else reads.
    if (seq != row.seq) RowLayout.writeSeq(row.base, row.at, seq)
    runs.append(to, kind, bucket, row.base, row.at)
  }
}
