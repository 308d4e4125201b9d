package io.tailrace.why

import java.nio.file.Files

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration

import io.tailrace.inspect.PartitionVersion
import io.tailrace.join.Side
import io.tailrace.state._

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

  private val gone = mutable.Map.empty[StoreKind, GoneRows]
  private val sections = state.sections.filter(live => Side.of(live.section.kind).nonEmpty)

  /** The sections with the rows of a side that wait. Eager matching keeps the keys of left rows again. */
  def sectionsOf(side: String): Seq[LiveSection] = {
    val ofSide = sections.filter(live => Side.of(live.section.kind).contains(side))
    if (ofSide.exists(_.section.kind == StoreKind.LeftTimeSorted))
      ofSide.filter(_.section.kind == StoreKind.LeftTimeSorted)
    else ofSide
  }

  /** Rows of a kind up to this time wait no more. They may be there, until their whole section is dropped. */
  private def leftThrough(kind: StoreKind): Long = {
    val left = kind match {
      case StoreKind.HeldRight | StoreKind.RightTimeSorted => manifest.rightExpiredThrough
      case _ if StoredRow.isLeft(kind) => manifest.expiredThrough
      case _ => Long.MinValue
    }
    Math.max(left, rules.goneThrough(Side.of(kind).get, manifest))
  }

  /** The number of rows of a side that are in the state. */
  def rows(side: String): Long = sectionsOf(side).map(_.section.liveRows).sum

  /** No row of the section that counts is before this time. */
  def notBefore(live: LiveSection): Long = {
    val through = leftThrough(live.section.kind)
    if (live.section.minTime > through) live.section.minTime else through + 1
  }

  /** Calls `row` with a cursor at each row of a section that counts, until it says that it has enough. */
  def foreachRow(live: LiveSection)(row: RunCursor => Boolean): Unit = {
    val kind = live.section.kind
    val through = leftThrough(kind)
    reading(live) { cursor =>
      cursor.firstAfter(through)
      var goesOn = true
      while (goesOn && cursor.isValid) {
        if (counts(kind, through, cursor)) goesOn = row(cursor)
        cursor.next()
      }
    }
  }

  /** The rows of a key. In a section that is sorted by time, all rows are looked at.
    *
    * @param probe see [[AskedKey.probes]]
    */
  def ofKey(live: LiveSection, probe: Array[Byte])(row: RunCursor => Unit): Unit = {
    val kind = live.section.kind
    if (kind.timeSorted)
      foreachRow(live) { cursor =>
        if (cursor.compareKey(probe, StoredRow.Start) == 0) row(cursor)
        true
      }
    else {
      val through = leftThrough(kind)
      reading(live) { cursor =>
        cursor.seekKey(probe, StoredRow.Start)
        while (cursor.isValid && cursor.compareKey(probe, StoredRow.Start) == 0) {
          if (counts(kind, through, cursor)) row(cursor)
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

  private def counts(kind: StoreKind, through: Long, cursor: RunCursor): Boolean =
    cursor.time > through && !gone
      .getOrElseUpdate(kind, GoneRows.of(state.sections, kind))
      .contains(cursor.seq)

  override def close(): Unit = outside.close()
}

private object StoredPartition {
  private def reading[T](live: LiveSection)(body: RunCursor => T): T = {
    val cursor = live.cursor()
    try body(cursor)
    finally cursor.close()
  }
}
