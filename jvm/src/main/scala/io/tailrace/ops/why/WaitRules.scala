package io.tailrace.ops.why

import java.nio.file.Files

import org.apache.hadoop.conf.Configuration

import io.tailrace.asof.AsOfWindow
import io.tailrace.common.Side
import io.tailrace.explain.{JoinFacts, LabelFacts, NextRow, SyncFacts, SyncSideFacts}
import io.tailrace.join.JoinCheckpoint
import io.tailrace.label.JoinWindow.NoWatermark
import io.tailrace.label.{JoinOutput, JoinWindow, LateRights, MatchStrategy, ReleaseSteps}
import io.tailrace.ops.inspect.{JoinVersion, PartitionVersion}
import io.tailrace.state._
import io.tailrace.sync.{SyncFile, SyncWaits}

/** The times at which the rows of a join leave its state, according to its checkpoint. Times are microseconds. */
private[why] trait WaitRules {

  /** The sides whose rows are shown where no key is given: the first of these that have rows. */
  def shown: Seq[Seq[Side]]

  /** Rows of a side up to this time no longer wait for anything, even if they still count: see [[LivingRows]]. */
  def goneThrough(side: Side, manifest: Manifest): Long

  /** The watermark, or the time of the right side of a synced join, that a row leaves at; none: unknown. */
  def leaves(side: Side, time: Long, partition: Int, manifest: Manifest): Option[Long]

  /** The number of rows a left row matches so far. */
  def matches(row: StoredRow, partition: StoredPartition): Long

  /** @param expired left rows up to this time have been emitted in all partitions */
  def facts(left: Long, right: Long, oldest: Seq[NextRow], expired: Long): JoinFacts
}

private[why] object WaitRules {

  /** @param watermark  of the next micro-batch; none yet: [[JoinWindow.NoWatermark]]
    * @param progress   of the synced joins of the query, by their names
    */
  def of(join: JoinVersion, watermark: Long, progress: Map[String, SyncFile]): WaitRules =
    if (join.name == JoinCheckpoint.SyncJoin) new SyncRules(join.settings, progress)
    else if (join.name == JoinCheckpoint.AsOf) new AsOfRules(join.settings, watermark)
    else new LabelRules(join, watermark)

}

/** An as-of join. Right rows wait for left rows that are still to come, as long as they are the newest. */
private final class AsOfRules(settings: Map[String, String], watermark: Long) extends WaitRules {
  private val window = AsOfWindow(
    JoinCheckpoint.duration(settings, JoinCheckpoint.Delay).getOrElse(0L),
    JoinCheckpoint.duration(settings, JoinCheckpoint.MaxAge)
  )

  override def shown: Seq[Seq[Side]] = Seq(Seq(Side.Left))

  override def goneThrough(side: Side, manifest: Manifest): Long =
    side.of(NoWatermark, window.rightExpiry(manifest.rightExpiredThrough))

  override def leaves(side: Side, time: Long, partition: Int, manifest: Manifest): Option[Long] =
    side.of(Some(window.point(time)), window.leaves(time))

  override def matches(row: StoredRow, partition: StoredPartition): Long =
    if (!window.takes(row.time, window.point(row.time))) 0L
    else Math.min(1L, partition.rightRows(row, window.oldest(row.time), window.point(row.time)))

  override def facts(left: Long, right: Long, oldest: Seq[NextRow], expired: Long): JoinFacts =
    LabelFacts(
      isGrouped = true,
      -window.delay,
      Option.when(watermark != NoWatermark)(watermark),
      Some(left),
      Some(right),
      oldest.minByOption(_.needs),
      closedThrough = Some(expired).filter(_ > window.leftExpiry(watermark))
    )
}

/** A label join. */
private final class LabelRules(join: JoinVersion, watermark: Long) extends WaitRules {
  import join.settings

  private val window = JoinWindow(
    JoinCheckpoint.duration(settings, JoinCheckpoint.Before).getOrElse(0L),
    JoinCheckpoint.duration(settings, JoinCheckpoint.After).getOrElse(0L)
  )
  private val isGrouped = settings.get("how").contains(JoinOutput.Grouped.name)
  private val isEager = settings.get("spark.tailrace.join.strategy").contains(MatchStrategy.Eager.name)
  private val isLazy = !isEager && !settings.contains(JoinCheckpoint.Release)
  private val steps = settings.get(JoinCheckpoint.ReleaseEvery).fold(ReleaseSteps.EachBatch)(ReleaseSteps.of)
  private val partitions = join.partitions.size

  // By the shortest window that the join has had: the watermark had closed the previous ones.
  private val closed =
    JoinWindow(0, (window.after +: join.bound.grown.map(_.after)).min).leftExpiry(watermark)

  override def shown: Seq[Seq[Side]] =
    if (isGrouped) Seq(Seq(Side.Left)) else Seq(Seq(Side.Left, Side.Right))

  override def goneThrough(side: Side, manifest: Manifest): Long =
    if (side == Side.Left) { if (isGrouped) NoWatermark else window.leftExpiry(watermark) }
    else if (isGrouped && isLazy)
      window.rightExpiryAtWindowEnd(
        manifest.amendsAfter.fold(manifest.expiredThrough)(Math.min(_, manifest.expiredThrough))
      )
    else window.rightExpiryOnMatch(watermark)

  override def leaves(side: Side, time: Long, partition: Int, manifest: Manifest): Option[Long] = Some {
    if (side == Side.Left) {
      val due = steps.dueFrom(manifest.expiredThrough, partition, partitions)
      window.upperBound(if (isGrouped) Math.max(time, due) else time)
    } else {
      val needed = JoinWindow(window.after, window.before).upperBound(time)
      // What has been emitted may be amended for this long.
      val amends = manifest.amendsAfter.fold(0L)(time => Math.max(0L, window.leftExpiry(watermark) - time))
      if (isGrouped && isLazy) JoinWindow.saturatingAdd(window.upperBound(needed), amends) else needed
    }
  }

  override def matches(row: StoredRow, partition: StoredPartition): Long =
    if (isGrouped && isEager) partition.matchesOf(row)
    else {
      val manifest = partition.manifest
      // Where rows are amended, one that waits gets late right rows until it is emitted.
      val late =
        if (manifest.amendsAfter.nonEmpty) LateRights.None
        else new LateRights(manifest.lateRows, window.after, join.bound.grown)
      val (from, through) = (window.lowerBound(row.time), window.upperBound(row.time))
      partition.rightRows(row, from, through, late.hiddenThrough(_) >= row.time)
    }

  override def facts(left: Long, right: Long, oldest: Seq[NextRow], expired: Long): JoinFacts = {
    LabelFacts(
      isGrouped,
      window.after,
      Option.when(watermark != NoWatermark)(watermark),
      Some(left),
      Some(right),
      oldest.minByOption(_.needs),
      closedThrough = Some(expired).filter(_ => isGrouped && expired > closed)
    )
  }
}

/** A synced join. Its own progress decides, and not the watermark. */
private final class SyncRules(settings: Map[String, String], progress: Map[String, SyncFile])
    extends WaitRules {
  private val window = JoinCheckpoint.duration(settings, "window").getOrElse(0L)

  // The checkpoint names its directory by the join's name, and the operator by a number.
  private val own = Option.when(progress.size == 1)(progress.head._2)

  override def shown: Seq[Seq[Side]] = Seq(Seq(Side.Left), Seq(Side.Right))
  override def goneThrough(side: Side, manifest: Manifest): Long = Long.MinValue

  override def leaves(side: Side, time: Long, partition: Int, manifest: Manifest): Option[Long] =
    side.of(own.flatMap(SyncWaits.needs(time, _)), None)

  override def matches(row: StoredRow, partition: StoredPartition): Long =
    partition.rightRows(row, row.time - window, row.time + window)

  override def facts(left: Long, right: Long, oldest: Seq[NextRow], expired: Long): JoinFacts = SyncFacts(
    own.flatMap(file => SyncWaits.released(file.times)),
    left,
    right,
    oldest.minByOption(_.time),
    own.fold(Seq.empty[SyncSideFacts])(SyncWaits.sides),
    if (progress.size > 1) progress.keys.toSeq.sorted else Nil
  )
}

/** A partition of a join's state, read directly: no Spark session runs. Runs are copied to a local directory
  * when they are read, so it reads as few as it can; those on a local disk are read where they are.
  */
private[why] final class StoredPartition(
    val of: PartitionVersion,
    rules: WaitRules,
    conf: Configuration
) extends AutoCloseable {
  import StoredPartition._

  private val outside = new OutsideState(
    Files.createTempDirectory(s"tailrace-why-${of.partition}-").toFile,
    of.files(conf),
    of.version,
    of.id,
    // Values aren't read, whatever schema they have.
    RowShapes.AsWritten,
    isInPart = true
  )
  import outside.state

  def number: Int = of.partition
  def manifest: Manifest = state.manifest

  private val living = LivingRows.of(state)
  private val sections = state.sections.filter(live => live.section.kind.side.nonEmpty)

  /** The sections with the rows of a side that wait. Eager matching keeps the keys of left rows again. */
  def sectionsOf(side: Side): Seq[LiveSection] = {
    val ofSide = sections.filter(live => live.section.kind.side.contains(side))
    if (ofSide.exists(_.section.kind == StoreKind.LeftTimeSorted))
      ofSide.filter(_.section.kind == StoreKind.LeftTimeSorted)
    else ofSide
  }

  /** The rows of a store that count, and that still wait for something. */
  private def waiting(kind: StoreKind): LivingRows.InStore =
    living.in(kind).after(rules.goneThrough(kind.side.get, manifest))

  /** The number of rows of a side that are in the state. */
  def rows(side: Side): Long = sectionsOf(side).map(_.section.liveRows).sum

  /** No row of the section that counts is before this time. */
  def notBefore(live: LiveSection): Long = waiting(live.section.kind).notBefore(live.section)

  /** Calls `row` with a cursor at each row of a section that counts, until it says that it has enough. */
  def foreachRow(live: LiveSection)(row: RunCursor => Boolean): Unit = {
    val rows = waiting(live.section.kind).cursor(live)
    try while (rows.isValid && row(rows.row)) rows.next()
    finally rows.close()
  }

  /** The rows of a key. In a section that is sorted by time, all rows are looked at.
    *
    * @param probe see [[AskedKey.probes]]
    */
  def ofKey(live: LiveSection, probe: Array[Byte])(row: RunCursor => Unit): Unit = {
    if (live.section.kind.timeSorted)
      foreachRow(live) { cursor =>
        if (cursor.compareKey(probe, StoredRow.Start) == 0) row(cursor)
        true
      }
    else {
      val rule = waiting(live.section.kind)
      reading(live) { cursor =>
        cursor.seekKey(probe, StoredRow.Start)
        while (cursor.isValid && cursor.compareKey(probe, StoredRow.Start) == 0) {
          if (rule.counts(cursor)) row(cursor)
          cursor.next()
        }
      }
    }
  }

  /** The number of matches eager matching has found of a left row. */
  def matchesOf(row: StoredRow): Long = {
    var found = 0L
    state.sections
      .filter { live =>
        val section = live.section
        section.kind == StoreKind.JoinedIndicator && section.minTime <= row.time && section.maxTime >= row.time
      }
      .foreach(reading(_) { cursor =>
        cursor.seekTime(row.time)
        while (cursor.isValid && cursor.time == row.time) {
          if (cursor.seq == row.seq) found += 1
          cursor.next()
        }
      })
    found
  }

  /** The number of right rows of a left row's key that are between two times.
    *
    * @param isHidden those that don't count, because they came too late for it
    */
  def rightRows(
      row: StoredRow,
      from: Long,
      through: Long,
      isHidden: RunCursor => Boolean = _ => false
  ): Long = {
    var found = 0L
    sectionsOf(Side.Right)
      .filter(live => live.section.minTime <= through && live.section.maxTime >= from)
      .foreach(ofKey(_, row.key) { cursor =>
        if (cursor.time >= from && cursor.time <= through && !isHidden(cursor)) found += 1
      })
    found
  }

  override def close(): Unit = outside.close()
}

private object StoredPartition {
  private def reading[T](live: LiveSection)(body: RunCursor => T): T = {
    val cursor = live.cursor()
    try body(cursor)
    finally cursor.close()
  }
}
