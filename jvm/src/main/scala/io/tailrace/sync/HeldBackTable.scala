package io.tailrace.sync

import java.util

import org.apache.spark.sql.connector.catalog.{Column, SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory, Scan, ScanBuilder}
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
        new HeldBackStream(stream, () => SyncRun.current(settings), side)
      case _ => throw SyncErrors.maxPendingUnsupported(side.name, source.description())
    }
}

/** @param run the join's progress in the query whose thread asks */
private[sync] final class HeldBackStream(
    source: SupportsTriggerAvailableNow with MicroBatchStream,
    run: () => SyncRun,
    side: SyncSide
) extends MicroBatchStream
    with SupportsTriggerAvailableNow
    with ReportsSourceMetrics {

  /** The source's own end of a batch, except for partitions that are held back: they end where they begin. */
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val end = source.latestOffset(start, limit)
    val heldBack = run().holdBack(side)
    // Offsets of another form are refused at once, not only when partitions must be held back.
    val ends = Option(end).map(offsets)
    if (ends.isEmpty || start == null || heldBack.isEmpty) end
    else {
      val from = offsets(start)
      val to = ends.get.map { case (partition, offset) =>
        // A new partition has no beginning yet; it is read.
        partition -> (if (KafkaOffsets.isAmong(partition, heldBack)) from.getOrElse(partition, offset)
                      else offset)
      }
      source.deserializeOffset(KafkaOffsets.json(to))
    }
  }

  private def offsets(offset: Offset): Map[KafkaPartition, Long] =
    KafkaOffsets.parse(offset.json).getOrElse(throw SyncErrors.maxPendingUnsupported(side.name, offset.json))

  override def prepareForTriggerAvailableNow(): Unit = source.prepareForTriggerAvailableNow()
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

/** Chooses the partitions that aren't read while too many rows are held: their rows would be held too. All
  * times are microseconds.
  *
  * {{{
  *   too many right rows  right 0 12:07   1 12:05   2 12:09   ->   0 and 2 are held back, they wait for 1
  *   too many left rows   release 12:04, left 0 12:06   1 12:03   ->   0 is held back: its rows would wait
  * }}}
  *
  * The slowest right partition is always read: otherwise no left row would ever be released.
  */
private[sync] object HoldBack {

  /** @param latest  how far each partition has been read
    * @param release left rows before it are released
    */
  def left(latest: Map[String, Long], release: Long): Set[String] =
    names(latest)(_ >= release)

  /** @param leftLow how far the slowest left partition has been read: right rows after this time wait for it;
    *                none: it is held back itself, and a wait for it would never end
    */
  def right(latest: Map[String, Long], leftLow: Option[Long]): Set[String] =
    if (latest.isEmpty) Set.empty
    else {
      val slowest = latest.values.min
      if (slowest != SyncTimes.Unknown && leftLow.exists(slowest > _)) latest.keySet
      else names(latest)(_ > slowest)
    }

  private def names(latest: Map[String, Long])(isHeld: Long => Boolean): Set[String] =
    latest.collect { case (name, time) if time != SyncTimes.Unknown && isHeld(time) => name }.toSet
}
