package io.tailrace.ops.inspect

import java.util.Arrays

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.metric.{CustomSumMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader}
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.common.Side
import io.tailrace.state.{LiveSection, RowLayout, RunCursor}

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
