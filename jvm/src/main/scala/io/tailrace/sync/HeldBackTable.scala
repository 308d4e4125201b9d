package io.tailrace.sync

import java.util

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.{Column, SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.tailrace.StreamingRelationV2
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import io.tailrace.plan.WrapsTable

/** A topic whose partitions can be held back. It only changes where batches end. Options, offsets and readers
  * are the source's own, so a checkpoint can be used with `max_pending` and without.
  */
final class HeldBackTable(val source: Table with SupportsRead, settings: SyncSettings, side: SyncSide)
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

private[sync] final class HeldBackScan(source: Scan, settings: SyncSettings, side: SyncSide) extends Scan {
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
      case _ if settings.asksForMaxPending =>
        throw SyncErrors.maxPendingUnsupported(side.name, source.description())
      case stream =>
        SyncNotices.unlimited(settings.name, side, source.description())
        stream
    }
}

/** Lets a batch end before the source would let it. If its offsets are Kafka's, and partitions are told apart by
  * Kafka's columns, each partition has an end of its own. Any other source ends as a whole where it begins.
  *
  * @param run     the join's progress in the query whose thread asks
  * @param columns that tell partitions apart
  */
private[sync] final class HeldBackStream(
    source: SupportsTriggerAvailableNow with MicroBatchStream,
    run: () => SyncRun,
    side: SyncSide,
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

  /** A source's limit, and at most so many rows if it is one of rows: others know nothing of rows. */
  def within(limit: ReadLimit, room: Option[Long]): ReadLimit = limit match {
    case rows: ReadMaxRows if room.exists(_ < rows.maxRows) => ReadLimit.maxRows(room.get)
    case _ => limit
  }
}

/** The sources of a side that are read no further while too many rows are held. */
private[sync] object HeldBackSources {

  /** @return what the side reads from, if it can't be held back; none: it can, or need not */
  def obstacle(side: LogicalPlan, settings: SyncSettings): Option[String] = settings.maxPending.flatMap { _ =>
    side.collectLeaves().filter(_.isStreaming).collectFirst {
      case source: StreamingRelationV2 if !source.table.isInstanceOf[SupportsRead] => source.table.name
      case leaf if !leaf.isInstanceOf[StreamingRelationV2] => leaf.simpleString(100)
    }
  }

  /** A side without an obstacle. */
  def wrap(plan: LogicalPlan, side: SyncSide, settings: SyncSettings): LogicalPlan = plan.transform {
    case source: StreamingRelationV2 =>
      source.table match {
        case table: SupportsRead => source.copy(table = new HeldBackTable(table, settings, side))
        case _ => source
      }
  }
}
