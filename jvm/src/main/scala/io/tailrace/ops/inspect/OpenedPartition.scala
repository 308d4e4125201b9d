package io.tailrace.ops.inspect

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.common.Side
import io.tailrace.state._

/** A version of a partition's state that a task reads, and which of its rows count. Its runs are copied to the
  * executor's local disk as they are read. For a lookup, those on a local disk are read where they are.
  */
private[inspect] final class OpenedPartition(
    columns: StateColumns,
    asked: AskedRows,
    lookup: Option[KeyLookup],
    partition: PartitionVersion,
    conf: Configuration
) extends AutoCloseable {
  val decoder = new StateDecoder(columns)
  private val sought = Side.values
    .flatMap(side => lookup.map(keys => side -> new SoughtKeys(keys.of(side))))
    .toMap
  private val outside = new OutsideState(
    SparkState.localDirectory(s"tailrace-state-${partition.partition}"),
    partition.files(conf),
    partition.version,
    partition.id,
    columns.shapes,
    lookup.nonEmpty
  )
  import outside.state

  /** Which rows of the version count. */
  val living: LivingRows = LivingRows.of(state)

  /** Those of every `of`-th run, from number `slice` on. */
  def sections(slice: Int, of: Int): Seq[LiveSection] = {
    val runs = state.runs.indices.filter(_ % of == slice).map(state.runs).toSet
    sections.filter(live => runs(live.local))
  }

  /** The sections that may have rows that are asked for. Matches and marks of rows are no rows. */
  val sections: Seq[LiveSection] = state.sections.filter { live =>
    val section = live.section
    section.maxTime >= asked.from && section.minTime <= asked.through &&
    section.kind.side.exists { side =>
      side.of(asked.left, asked.right) && lookup.forall(_.of(side).nonEmpty)
    }
  }

  /** All sections, regardless of the filters: run, store and bucket of each. */
  def names: Set[(String, String, Long)] = state.sections.map(OpenedPartition.nameOf).toSet

  /** True if rows of a store may leave one by one. */
  def hasMarks(kind: StoreKind): Boolean = state.sections.exists(_.section.kind.marks.contains(kind))

  /** The rows of a section that count and that are asked for.
    *
    * @param through rows after this time are left out
    * @param also    a further condition
    */
  def rows(live: LiveSection, through: Long = Long.MaxValue)(also: RunCursor => Boolean): SectionRows = {
    val kind = live.section.kind
    val isRight = kind.side.contains(Side.Right)
    // Eager matching keeps the keys of left rows again, without the rows.
    val hasKeysAlone = kind == StoreKind.LeftKeySorted
    val counting = living.in(kind)
    new SectionRows(
      live,
      Math.max(asked.from, counting.notBefore(live.section)),
      Math.min(asked.through, through),
      sought.get(kind.side.get),
      row => decoder.key(live, row): Unit,
      row =>
        counting.counts(row) && !(hasKeysAlone && RowLayout.valueLength(row.base, row.at) == 0) &&
          // A right row of a hot key is in the state once for each part of the key.
          !(isRight && columns.part.exists(decoder.key(live, row).getInt(_) != 0)) && also(row)
    )
  }

  override def close(): Unit = outside.close()
}

private[inspect] object OpenedPartition {

  def nameOf(live: LiveSection): (String, String, Long) =
    (live.local.name, live.section.store, live.section.bucket)
}

/** Walks over the rows of a section that are asked for. In a section that is ordered by key it seeks each key
  * that is looked for. In one that is ordered by time it seeks the first time, and compares the keys of the rows
  * from there, without a look at their values.
  *
  * @param from    the earliest time, in microseconds, inclusive
  * @param through the latest, inclusive
  * @param sought  none: rows of all keys
  * @param check   is given the first row with a key that it comes by: keys of other columns are found by no key
  * @param counts  whether a row is wanted
  */
private[inspect] final class SectionRows(
    val live: LiveSection,
    from: Long,
    through: Long,
    sought: Option[SoughtKeys],
    check: RunCursor => Unit,
    counts: RunCursor => Boolean
) extends AutoCloseable {
  private val isByTime = live.section.kind.timeSorted
  private val cursor = live.cursor()
  private val walk = sought.filterNot(_ => isByTime).map(keys => new keys.Walk(cursor))
  private val filter = sought.filter(_ => isByTime)
  private var isBegun, isChecked = false

  /** At the row that [[next]] has found. */
  def at: RunCursor = cursor

  /** @return true if there is another row */
  def next(): Boolean = {
    if (isBegun) cursor.next() else begin()
    while (isInside && !isWanted) cursor.next()
    isInside
  }

  private def begin(): Unit = {
    isBegun = true
    if (walk.nonEmpty) walk.foreach(_.first())
    else if (isByTime && from > live.section.minTime) cursor.seekTime(from)
    else cursor.first()
  }

  /** True if there may be rows from here on. */
  private def isInside: Boolean = {
    if (!isChecked && sought.nonEmpty && cursor.isValid && RowLayout.keyLength(cursor.base, cursor.at) > 0) {
      isChecked = true
      check(cursor)
    }
    walk.fold(cursor.isValid && !(isByTime && cursor.time > through))(_.settle())
  }

  private def isWanted: Boolean =
    cursor.time >= from && cursor.time <= through && filter.forall(_.has(cursor)) && counts(cursor)

  override def close(): Unit = cursor.close()
}
