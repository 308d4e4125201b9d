package io.tailrace.ops.inspect

import java.util.{Arrays, EnumSet, Set => JavaSet}

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.tailrace.SparkState
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.common.Side
import io.tailrace.state._

/** A table of the format: read in batches, by tasks that read files. */
private[inspect] abstract class StateTable extends Table with SupportsRead {
  override def name(): String = s"tailrace-state of $content"
  override def capabilities(): JavaSet[TableCapability] = EnumSet.of(TableCapability.BATCH_READ)

  /** The content, as plans show it to a user. */
  protected def content: String

  def rows: StructType
  override def schema(): StructType = rows
}

/** The rows of a join's state.
  *
  * @param before the version that this one is compared with
  * @param slots  tasks that Spark may run side by side
  */
private[inspect] final class JoinTable(
    join: JoinVersion,
    before: Option[JoinVersion],
    columns: StateColumns,
    slots: Int,
    conf: SerializableConfiguration
) extends StateTable {
  override protected def content: String = s"operator ${join.operator}, version ${join.version}"
  override def rows: StructType = columns.schema
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = new Builder

  private final class Builder
      extends ScanBuilder
      with SupportsPushDownV2Filters
      with SupportsPushDownRequiredColumns {
    private var asked = AskedRows()
    private var required = columns.schema

    private var answered = Array.empty[Predicate]

    override def pushPredicates(predicates: Array[Predicate]): Array[Predicate] = {
      asked = predicates.foldLeft(asked)(_.and(_, columns))
      val isLookup = KeyLookup.of(columns, asked, join.partitions.size).nonEmpty
      val (left, done) = {
        val rest = AskedRows.unanswered(predicates.toSeq, columns, isLookup).toSet
        predicates.partition(rest)
      }
      answered = done
      left
    }

    override def pushedPredicates(): Array[Predicate] = answered

    /** Structs come whole: their bytes are in one place. */
    override def pruneColumns(wanted: StructType): Unit =
      required = StructType(wanted.fieldNames.map(columns.schema(_)))

    override def build(): Scan = new StateScan(name(), slices(asked), required) {
      override def createReaderFactory(): PartitionReaderFactory =
        new StateReaders(join.operator, columns, required, asked, conf)
    }
  }

  private def slices(asked: AskedRows): Seq[StateSlice] = {
    val lookups = KeyLookup.of(columns, asked, join.partitions.size)
    val wanted = join.partitions.filter { partition =>
      val number = partition.partition
      asked.operators.forall(_.contains(join.operator)) &&
      asked.partitions.forall(_.contains(number)) && lookups.forall(_.contains(number))
    }
    // A lookup in few partitions would have fewer tasks than the machine has cores.
    val of = if (lookups.isEmpty || before.nonEmpty) 1 else Math.max(1, slots / Math.max(1, wanted.size))
    for (partition <- wanted; slice <- 0 until of)
      yield StateSlice(
        partition,
        before.map(_.partitions(partition.partition)),
        lookups.map(_(partition.partition)),
        slice,
        of
      )
  }
}

/** A scan whose tasks are known, and of which a plan says how many they are. */
private[inspect] abstract class StateScan(table: String, tasks: Seq[InputPartition], columns: StructType)
    extends Scan
    with Batch {
  override def readSchema(): StructType = columns
  override def description(): String = s"$table, ${tasks.size} tasks"
  override def toBatch: Batch = this
  override def planInputPartitions(): Array[InputPartition] = tasks.toArray
  override def supportedCustomMetrics(): Array[CustomMetric] = Array(new PagesRead)
  override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.UNSUPPORTED
}

private final class StateReaders(
    operator: Long,
    columns: StateColumns,
    required: StructType,
    asked: AskedRows,
    conf: SerializableConfiguration
) extends PartitionReaderFactory {
  override def createReader(slice: InputPartition): PartitionReader[InternalRow] =
    new StateRows(operator, columns, required, asked, slice.asInstanceOf[StateSlice], conf)
}

/** The part of a join's state that one task reads.
  *
  * @param before the version that this one is compared with; none: its rows themselves
  * @param lookup the keys that are looked for; none: all
  * @param slice  the task takes the runs `slice`, `slice + of`, ...
  */
private[inspect] final case class StateSlice(
    partition: PartitionVersion,
    before: Option[PartitionVersion],
    lookup: Option[KeyLookup],
    slice: Int = 0,
    of: Int = 1
) extends InputPartition

/** The rows of a slice, decoded.
  *
  * @param required the columns that are wanted
  */
private[inspect] final class StateRows(
    operator: Long,
    columns: StateColumns,
    required: StructType,
    asked: AskedRows,
    slice: StateSlice,
    conf: SerializableConfiguration
) extends PartitionReader[InternalRow] {
  private val opened = open(slice.partition, conf.value)
  private lazy val before = slice.before.map(open(_, conf.value))
  private lazy val parts: Iterator[StatePart] = before match {
    case Some(earlier) => new ChangedRows(earlier, opened).parts
    case None =>
      val mine = opened.sections(slice.slice, slice.of)
      StatePart.prepare(mine)
      mine.iterator.map(live => StatePart(null, opened.rows(live)(_ => true)))
  }
  private var part = Option.empty[StatePart]
  private var pages = 0L
  private val values = required.fieldNames.map(value)

  private def open(version: PartitionVersion, conf: Configuration) =
    new OpenedPartition(columns, asked, slice.lookup, version, conf)

  override def next(): Boolean = {
    while (!part.exists(_.rows.next())) {
      closePart()
      if (!parts.hasNext) return false
      part = Some(parts.next())
    }
    true
  }

  /** Valid until the next row, as Spark allows: it copies what it keeps. */
  override def get(): InternalRow = {
    val StatePart(change, rows) = part.get
    val row = new Array[Any](values.length)
    var i = 0
    while (i < row.length) {
      row(i) = values(i)(change, rows.live, rows.at)
      i += 1
    }
    new GenericInternalRow(row)
  }

  private type Value = (UTF8String, LiveSection, RunCursor) => Any
  private val left = UTF8String.fromString(Side.Left.name)
  private val right = UTF8String.fromString(Side.Right.name)

  private def isLeft(live: LiveSection): Boolean =
    live.section.kind.side.contains(Side.Left)

  private def value(column: String): Value = column match {
    case "change" => (change, _, _) => change
    case "operator" => (_, _, _) => operator
    case "partition" => (_, _, _) => slice.partition.partition
    case "side" => (_, live, _) => if (isLeft(live)) left else right
    case "time" => (_, _, at) => at.time
    case "key" =>
      (_, live, at) =>
        if (RowLayout.keyLength(at.base, at.at) == 0) null else columns.shownKey(opened.decoder.key(live, at))
    case "left" =>
      (_, live, at) => if (isLeft(live)) columns.shownLeft(opened.decoder.left(live, at)) else null
    case "right" => (_, live, at) => if (isLeft(live)) null else opened.decoder.right(live, at)
  }

  private def closePart(): Unit = {
    part.foreach { closed =>
      pages += closed.rows.at.pagesRead
      closed.rows.close()
    }
    part = None
  }

  override def currentMetricsValues(): Array[CustomTaskMetric] =
    Array(PagesRead.of(pages + part.fold(0L)(_.rows.at.pagesRead)))

  override def close(): Unit =
    try closePart()
    finally
      try opened.close()
      finally if (slice.before.nonEmpty) before.foreach(_.close())
}

/** The rows of a section that are emitted.
  *
  * @param change what has happened to them between two versions; null: they are those of one
  */
private[inspect] final case class StatePart(change: UTF8String, rows: SectionRows)

private[inspect] object StatePart {

  /** Lets their runs come side by side. */
  def prepare(sections: Seq[LiveSection]): Unit = LiveSection.prepare(sections)
}

/** Pages of the state that a query has read, in Spark's metrics. */
final class PagesRead extends CustomSumMetric {
  override def name(): String = PagesRead.Name
  override def description(): String = "pages of the state read"
}

private[inspect] object PagesRead {
  val Name = "pagesRead"

  def of(pages: Long): CustomTaskMetric = new CustomTaskMetric {
    override def name(): String = Name
    override def value(): Long = pages
  }
}

/** The rows that have come and gone between two versions of a partition. A section never changes, so of those
  * that both versions have, no row can have come, and those are gone that have left since:
  *
  * {{{
  *   version 7    5-a.run: 12:00 12:04    6-b.run: 12:01    6-c.run: 12:02
  *   version 9    5-a.run: 12:00 12:04    8-d.run: 12:01 12:02 12:09         results out through 12:00
  *                gone: 12:00             both read: 12:01 and 12:02 are the same rows; added: 12:09
  * }}}
  *
  * A row keeps its sequence number when it is written again. Those of the sections that only one of the versions
  * has are held in memory, 8 bytes each.
  */
private[inspect] final class ChangedRows(before: OpenedPartition, after: OpenedPartition) {
  import ChangedRows._

  private val shared = before.names.intersect(after.names)

  def parts: Iterator[StatePart] = {
    val (kept, went) = before.sections.partition(live => shared(OpenedPartition.nameOf(live)))
    val came = after.sections.filterNot(live => shared(OpenedPartition.nameOf(live)))
    StatePart.prepare(went)
    StatePart.prepare(came)
    val (old, young) = (seqsOf(before, went), seqsOf(after, came))
    went.iterator.map(live => StatePart(Gone, before.rows(live)(row => !has(young, row.seq)))) ++
      kept.iterator.flatMap(left) ++
      came.iterator.map(live => StatePart(Added, after.rows(live)(row => !has(old, row.seq))))
  }

  /** The rows of a section that have left it. */
  private def left(live: LiveSection): Option[StatePart] = {
    val kind = live.section.kind
    val isMarked = after.hasMarks(kind)
    val now = after.living.in(kind)
    val mayHaveLeft =
      isMarked || (now.through > before.living.in(kind).through && now.through >= live.section.minTime)
    Option.when(mayHaveLeft) {
      val rows = before.rows(live, if (isMarked) Long.MaxValue else now.through)(!now.counts(_))
      StatePart(Gone, rows)
    }
  }

  private def seqsOf(version: OpenedPartition, sections: Seq[LiveSection]): Array[Long] = {
    val seqs = mutable.ArrayBuilder.make[Long]
    sections.foreach { live =>
      val rows = version.rows(live)(_ => true)
      try while (rows.next()) seqs += rows.at.seq
      finally rows.close()
    }
    val sorted = seqs.result()
    Arrays.sort(sorted)
    sorted
  }
}

private[inspect] object ChangedRows {
  val Added: UTF8String = UTF8String.fromString("added")
  val Gone: UTF8String = UTF8String.fromString("gone")

  private def has(sorted: Array[Long], seq: Long): Boolean = Arrays.binarySearch(sorted, seq) >= 0
}

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
          // A right row of a salted key is in the state once for each part of the key.
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
