package io.tailrace.sync

import java.sql.Timestamp

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.types._

import io.tailrace.common.ProgressName

/** What a batch has come to, for the query's progress.
  *
  * @param times     what the next batch is judged by
  * @param held      rows that wait
  * @param jumps     rows that were further back than the sync delay
  * @param late      rows that came when what would have joined them was decided, by side and partition
  * @param waitsFor  who holds a side, where it is more than the ordinary
  * @param future    rows that were further ahead of the clock than is believed
  */
private[sync] final case class SyncReport(
    times: SyncTimes,
    heldLeft: Long,
    heldRight: Long,
    jumps: Long,
    late: Seq[(SyncSide, String, Long)],
    waitsFor: Seq[(SyncSide, HeldBy)],
    future: Long = 0
) {
  import SyncReport._

  def row: Row = new GenericRowWithSchema(
    Array(
      timestamp(times.release),
      timestamp(times.leftLow),
      heldLeft,
      heldRight,
      jumps,
      late.map { case (side, partition, rows) =>
        new GenericRowWithSchema(Array(side.name, partition, rows), LateSchema)
      },
      waitsFor.map { case (side, by) =>
        new GenericRowWithSchema(
          Array(
            side.name,
            by.partition,
            timestamp(by.latest),
            by.lag.map(micros => Long.box(micros / 1000)).orNull,
            by.silentMs,
            by.condition.name
          ),
          HeldBySchema
        )
      },
      future
    ),
    Schema
  )
}

private[sync] object SyncReport {

  /** In `observedMetrics`. */
  def name(settings: SyncSettings): String = ProgressName("syncJoin", settings.name, SyncOptions.Name)

  private def timestamp(micros: Long): Timestamp =
    if (micros == SyncTimes.Unknown) null else DateTimeUtils.toJavaTimestamp(micros)

  private val LateSchema =
    new StructType().add("side", StringType).add("partition", StringType).add("rows", LongType)
  private val HeldBySchema = new StructType()
    .add("side", StringType)
    .add("partition", StringType)
    .add("latest", TimestampType)
    .add("lagMs", LongType)
    .add("silentMs", LongType)
    .add("condition", StringType)
  private val Schema = new StructType()
    .add("syncTime", TimestampType)
    .add("leftLow", TimestampType)
    .add("heldLeft", LongType)
    .add("heldRight", LongType)
    .add("possiblyMissed", LongType)
    .add("late", ArrayType(LateSchema))
    .add("waitsFor", ArrayType(HeldBySchema))
    .add("futureRows", LongType)
}
