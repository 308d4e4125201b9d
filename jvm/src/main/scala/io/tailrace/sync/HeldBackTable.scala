package io.tailrace.sync

import java.util

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.{Column, SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory, Scan, ScanBuilder}
import org.apache.spark.sql.tailrace._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.json4s.JsonAST.{JField, JInt, JObject}
import org.json4s.jackson.JsonMethods

import io.tailrace.common.{JoinedNames, Side}
import io.tailrace.plan.WrapsTable

/** A topic whose partitions can be held back. It only changes where batches end. Options, offsets and readers
  * are the source's own, so a checkpoint can be used with `max_buffered` and without.
  */
final class HeldBackTable(val source: Table with SupportsRead, settings: SyncSettings, side: Side)
    extends WrapsTable
    with SupportsRead {
  override def name(): String = source.name()
  override def columns(): Array[Column] = source.columns()
  override def partitioning(): Array[Transform] = source.partitioning()
  override def properties(): util.Map[String, String] = source.properties()
  override def capabilities(): util.Set[TableCapability] = source.capabilities()

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new HeldBackScan(source.newScanBuilder(options).build(), settings, side)
}

private[sync] final class HeldBackScan(source: Scan, settings: SyncSettings, side: Side) extends Scan {
  override def readSchema(): StructType = source.readSchema()
  override def description(): String = source.description()
  override def supportedCustomMetrics(): Array[CustomMetric] = source.supportedCustomMetrics()
  override def reportDriverMetrics(): Array[CustomTaskMetric] = source.reportDriverMetrics()
  override def columnarSupportMode(): Scan.ColumnarSupportMode = source.columnarSupportMode()

  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    source.toMicroBatchStream(checkpoint) match {
      case stream: SupportsTriggerAvailableNow =>
        val columns = side.of(settings.leftPartition, settings.rightPartition)
        new HeldBackStream(stream, () => SyncRun.current(settings), side, columns)
      case _ if settings.asksForMaxBuffered =>
        throw SyncErrors.maxBufferedUnsupported(side, source.description())
      case stream =>
        SyncNotices.unlimited(settings.name, side, source.description())
        stream
    }
}

/** Ends a batch before the source would. If its offsets are Kafka's, and partitions are distinguished by
  * Kafka's columns, each partition has an end of its own. Any other source ends as a whole where it begins.
  *
  * @param run     the join's progress in the query whose thread asks
  * @param columns that distinguish partitions
  */
private[sync] final class HeldBackStream(
    source: SupportsTriggerAvailableNow with MicroBatchStream,
    run: () => SyncRun,
    side: Side,
    columns: Seq[String]
) extends MicroBatchStream
    with SupportsTriggerAvailableNow
    with ReportsSourceMetrics {

  private val isByPartition = KafkaPartition.isOf(columns)
  // A run that has one batch reads all that there is.
  private var hasManyBatches = false

  /** The source's own end of a batch, or an earlier one. */
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val sync = run()
    val isOne = sync.endsByItself && !hasManyBatches
    val room = if (isOne) None else sync.room(side)
    val end = source.latestOffset(start, if (isByPartition) limit else HeldBackStream.within(limit, room))
    val to = if (isByPartition) Option(end).flatMap(offsets) else None
    val heldBack = sync.holdBack(side, allOrNone = to.isEmpty)
    if (start == null || end == null) end
    else
      offsets(start).zip(to) match {
        case Some((from, all)) => endOf(end, from, all, heldBack, room)
        case None => if (heldBack.isEmpty) end else start
      }
  }

  private def endOf(
      end: Offset,
      from: Map[KafkaPartition, Long],
      all: Map[KafkaPartition, Long],
      heldBack: Set[String],
      room: Option[Long]
  ): Offset = {
    val to = all.map { case (partition, offset) =>
      // A new partition has no beginning yet; it is read.
      val isHeld = KafkaOffsets.isAmong(partition, heldBack)
      partition -> (if (isHeld) from.getOrElse(partition, offset) else offset)
    }
    val within = room.fold(to)(KafkaOffsets.within(from, to, _))
    if (within == all) end else source.deserializeOffset(KafkaOffsets.json(within))
  }

  private def offsets(offset: Offset): Option[Map[KafkaPartition, Long]] = KafkaOffsets.parse(offset.json)

  override def prepareForTriggerAvailableNow(): Unit = {
    hasManyBatches = true
    source.prepareForTriggerAvailableNow()
  }

  override def getDefaultReadLimit: ReadLimit = source.getDefaultReadLimit
  override def reportLatestOffset(): Offset = source.reportLatestOffset()
  override def latestOffset(): Offset = source.latestOffset()
  override def initialOffset(): Offset = source.initialOffset()
  override def deserializeOffset(json: String): Offset = source.deserializeOffset(json)
  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
    source.planInputPartitions(start, end)
  override def createReaderFactory(): PartitionReaderFactory = source.createReaderFactory()
  override def commit(end: Offset): Unit = source.commit(end)
  override def stop(): Unit = source.stop()
  override def toString: String = source.toString

  override def metrics(latest: util.Optional[Offset]): util.Map[String, String] = source match {
    case reports: ReportsSourceMetrics => reports.metrics(latest)
    case _ => util.Collections.emptyMap()
  }
}

private[sync] object HeldBackStream {

  /** A source's limit, lowered to this number of rows if it is a limit on rows: other limits have no rows. */
  def within(limit: ReadLimit, room: Option[Long]): ReadLimit = limit match {
    case rows: ReadMaxRows if room.exists(_ < rows.maxRows) => ReadLimit.maxRows(room.get)
    case _ => limit
  }
}

/** The sources of a side that are read no further while too many rows are held. */
private[sync] object HeldBackSources {

  /** @return the side's source, if it can't be held back; none: it can, or need not */
  def obstacle(side: LogicalPlan, settings: SyncSettings): Option[String] = settings.maxBuffered.flatMap {
    _ =>
      side.collectLeaves().filter(_.isStreaming).collectFirst {
        case source: StreamingRelationV2 if !source.table.isInstanceOf[SupportsRead] => source.table.name
        // A backfill reads its tables in a run with `availableNow`, which reads everything.
        case leaf if !leaf.isInstanceOf[StreamingRelationV2] && !FrameStream.isIn(leaf) =>
          leaf.simpleString(100)
      }
  }

  /** A side without an obstacle. */
  def wrap(plan: LogicalPlan, side: Side, settings: SyncSettings): LogicalPlan = plan.transform {
    case source: StreamingRelationV2 =>
      source.table match {
        case table: SupportsRead => source.copy(table = new HeldBackTable(table, settings, side))
        case _ => source
      }
  }
}

/** A partition of a topic. */
private[sync] final case class KafkaPartition(topic: String, number: Int)

private[sync] object KafkaPartition {

  /** The columns of Kafka's source. */
  val Columns: Seq[String] = Seq("topic", "partition")

  /** True if columns are Kafka's own. */
  def isOf(columns: Seq[String]): Boolean = columns.forall(Columns.contains)
}

/** The offsets of Spark's Kafka source, the first that isn't read: `{"clicks":{"0":17,"1":0}}`. */
private[sync] object KafkaOffsets {

  /** @return none if the text is something else */
  def parse(json: String): Option[Map[KafkaPartition, Long]] =
    KafkaJson.topics(json).flatMap { topics =>
      val all = topics.flatMap {
        case (topic, JObject(partitions)) =>
          partitions.map {
            case (number, JInt(offset)) if offset.isValidLong =>
              number.toIntOption.map(n => KafkaPartition(topic, n) -> offset.toLong)
            case _ => None
          }
        case _ => Seq(None)
      }
      Option.when(all.nonEmpty && all.forall(_.isDefined))(all.flatten.toMap)
    }

  /** The text, as the source writes it. */
  def json(offsets: Map[KafkaPartition, Long]): String = {
    val topics = offsets.toSeq.groupBy(_._1.topic).toSeq.sortBy(_._1).map { case (topic, partitions) =>
      val ends = partitions.map { case (p, offset) => p.number -> offset }.sortBy(_._1)
      JField(topic, JObject(ends.toList.map { case (n, offset) => JField(n.toString, JInt(offset)) }))
    }
    JsonMethods.compact(JObject(topics.toList))
  }

  /** Ends of a batch that reads at most `most` records, each partition in proportion to its records.
    *
    * {{{
    *   most 10   from 0: 100, 1: 100   to 0: 130, 1: 110   ->   0: 107, 1: 102
    * }}}
    */
  def within(
      from: Map[KafkaPartition, Long],
      to: Map[KafkaPartition, Long],
      most: Long
  ): Map[KafkaPartition, Long] = {
    val counts = to.map { case (partition, end) => partition -> (end - from.getOrElse(partition, end)) }
    val all = counts.values.filter(_ > 0).sum
    if (all <= most) to
    else {
      val shared = counts.map { case (p, count) => p -> (Math.max(0L, count).toDouble / all * most).toLong }
      // Rounding must not leave a batch without a record.
      val read = if (shared.values.sum > 0) shared else shared + (counts.maxBy(_._2)._1 -> 1L)
      to.map { case (p, end) => p -> (if (counts(p) > 0) end - counts(p) + read(p) else end) }
    }
  }

  /** True if a partition is among these names, made of `partition` alone or of `topic` and `partition`. */
  def isAmong(partition: KafkaPartition, names: Set[String]): Boolean = {
    val number = partition.number.toString
    names(number) || names(PartitionNames.of(Seq(partition.topic, number)))
  }
}

/** Names of source partitions, made of the values of their columns. No two partitions have the same name.
  *
  * {{{
  *   clicks, 7         ->  clicks-7            as Kafka's tools name them
  *   eu-west, 1        ->  eu-west-1
  *   eu, west-1        ->  eu-west%2D1         a value after the first column never contains `-`
  *   null              ->  %
  * }}}
  */
private[sync] object PartitionNames {
  private val Null = "%"

  /** @param values of the columns, in their order; null where a row has none */
  def of(values: Seq[String]): String =
    (first(values.head) +: values.tail.map(further)).mkString(JoinedNames.Separator)

  // Names of topics and of hosts stay as they are.
  private def first(value: String): String =
    if (value == null) Null else if (value.startsWith(Null)) s"$Null$value" else value

  private def further(value: String): String =
    if (value == null) Null else JoinedNames.further(value)

  /** The name in files of format 1, which several partitions may have shared. */
  def formerly(values: Seq[String]): String = values.map(String.valueOf(_)).mkString("-")
}
