package io.tailrace.state

import java.io.StringWriter
import java.util.concurrent.atomic.AtomicReference

import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.CheckedText

import com.fasterxml.jackson.core.JsonFactory

/** The part of a run that belongs to one store and one time bucket. Times are microseconds since the epoch.
  *
  * @param expiredRows rows that no longer count, because their result has come out
  * @param bytes       keys and values before compression
  */
final case class Section(
    store: String,
    bucket: Long,
    rows: Long,
    minTime: Long,
    maxTime: Long,
    bytes: Long,
    expiredRows: Long = 0
) {
  def kind: StoreKind = StoreKind.named(store).get

  /** Rows that count. */
  def liveRows: Long = if (kind.hasRows) rows - expiredRows else 0L
}

/** One immutable file of the state, and its sections that are alive.
  *
  * @param level 0 for a batch's run; one more than its inputs' for a run that a [[Compaction]] has made
  */
final case class Run(name: String, length: Long, crc32c: Long, sections: Seq[Section], level: Int = 0)

/** One version of a partition's state: everything that is needed to load it.
  *
  * @param expiredThrough      results of left rows up to this time (microseconds, included) have come out
  * @param rightExpiredThrough [[TailraceStateStore.operatorTime]], by the synced join's name for it
  */
final case class Manifest(
    version: Long,
    expiredThrough: Long,
    runs: Seq[Run],
    rightExpiredThrough: Long = Long.MinValue
) {
  def fileNames: Set[String] = runs.iterator.map(_.name).toSet
}

object Manifest {

  /** The layout of manifest and runs that this release writes. */
  val Format = 2

  /** The oldest layout that it reads. Format 1, an entry for each row, was never released. */
  private val OldestFormat = 2
  private val text = new CheckedText("tailrace-state", "a manifest", OldestFormat, Format)

  val empty: Manifest = Manifest(version = 0, expiredThrough = Long.MinValue, runs = Nil)

  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  /** @param place the partition. Without it, a manifest without runs would be accepted in any partition */
  def encode(manifest: Manifest, place: String): Array[Byte] = text.encode(json(manifest), place)

  /** Reflection over case classes would cost more than the rest of a small commit. */
  private def json(manifest: Manifest): String = {
    val written = new StringWriter
    val out = new JsonFactory().createGenerator(written)
    out.writeStartObject()
    out.writeNumberField("version", manifest.version)
    out.writeNumberField("expiredThrough", manifest.expiredThrough)
    if (manifest.rightExpiredThrough != Long.MinValue)
      out.writeNumberField("rightExpiredThrough", manifest.rightExpiredThrough)
    out.writeArrayFieldStart("runs")
    manifest.runs.foreach { run =>
      out.writeStartObject()
      out.writeStringField("name", run.name)
      out.writeNumberField("length", run.length)
      out.writeNumberField("crc32c", run.crc32c)
      out.writeArrayFieldStart("sections")
      run.sections.foreach { section =>
        out.writeStartObject()
        out.writeStringField("store", section.store)
        out.writeNumberField("bucket", section.bucket)
        out.writeNumberField("rows", section.rows)
        out.writeNumberField("minTime", section.minTime)
        out.writeNumberField("maxTime", section.maxTime)
        out.writeNumberField("bytes", section.bytes)
        out.writeNumberField("expiredRows", section.expiredRows)
        out.writeEndObject()
      }
      out.writeEndArray()
      out.writeNumberField("level", run.level)
      out.writeEndObject()
    }
    out.writeEndArray()
    out.writeEndObject()
    out.close()
    written.toString
  }

  /** @param file the file's name, for errors */
  def decode(bytes: Array[Byte], place: String, file: String): Manifest =
    text.decode(bytes, file, place)(Serialization.read[Manifest](_))
}

/** One committed version with local copies of its runs, which count its users. */
final class LoadedState(
    val manifest: Manifest,
    val runs: Seq[LocalRun],
    val checkpointId: Option[String],
    dropped: Map[StoreKind, Long] = Map.empty
) {
  private val byName = runs.map(r => r.name -> r).toMap

  val sections: Seq[LiveSection] =
    manifest.runs.flatMap(run => run.sections.map(new LiveSection(byName(run.name), _)))

  /** Sections without a row after this time were dropped; the least long if that is unknown. */
  def droppedThrough(kind: StoreKind): Long = dropped.getOrElse(kind, Long.MinValue)

  private val kept = new AtomicReference[AnyRef]

  /** Keeps an operator's value in memory, as long as this version. */
  private[state] def keep(value: AnyRef): Unit = kept.set(value)

  /** Takes that value. Only one caller gets it, and may change it. */
  private[state] def takeKept(): Option[AnyRef] = Option(kept.getAndSet(null))

  def acquire(): Unit = runs.foreach(_.acquire())
  def release(): Unit = runs.foreach(_.release())
}
