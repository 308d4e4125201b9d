package io.tailrace.state

import java.io.StringWriter
import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.CRC32C

import scala.util.control.NonFatal

import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.common.Errors

import com.fasterxml.jackson.core.JsonFactory

/** A stretch of one run that belongs to one store and one time bucket. Times are microseconds since the epoch.
  *
  * @param expiredRows rows that no longer count, because their result has come out; only a time-sorted store has some
  *                    (a key-sorted one is dropped whole)
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
  def liveRows: Long = rows - expiredRows
}

/** One immutable file of the state and what of it is still alive.
  *
  * @param level 0 for a batch's run, and one more than its inputs' for one that a [[Compaction]] has made
  */
final case class Run(name: String, length: Long, crc32c: Long, sections: Seq[Section], level: Int = 0)

/** One version of a partition's state: everything that is needed to load it, and nothing else. The runs are the log.
  *
  * @param expiredThrough results of left rows up to this time (microseconds, included) have come out
  */
final case class Manifest(version: Long, expiredThrough: Long, runs: Seq[Run]) {
  def fileNames: Set[String] = runs.iterator.map(_.name).toSet
}

object Manifest {

  /** The newest layout of manifest and runs that this release writes and reads. */
  val Format = 2

  /** The oldest that it reads: format 1, a row an entry, was never released. */
  private val OldestFormat = 2
  private val Magic = "tailrace-state"

  val empty: Manifest = Manifest(version = 0, expiredThrough = Long.MinValue, runs = Nil)

  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  /** Three lines: magic, format and place; the manifest as JSON; the CRC-32C of the two lines above.
    *
    * @param place the partition that it describes: manifests of equal version are easily taken for each other, and one
    *              without runs would be believed anywhere
    */
  def encode(manifest: Manifest, place: String): Array[Byte] = {
    val body = s"$Magic $Format $place\n${json(manifest)}\n"
    s"$body${checksum(body)}\n".getBytes(UTF_8)
  }

  /** By hand, for a manifest is written with each batch: what takes case classes apart by reflection costs more than the
    * rest of a small commit.
    */
  private def json(manifest: Manifest): String = {
    val text = new StringWriter
    val out = new JsonFactory().createGenerator(text)
    out.writeStartObject()
    out.writeNumberField("version", manifest.version)
    out.writeNumberField("expiredThrough", manifest.expiredThrough)
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
    text.toString
  }

  /** @param file what to call the file in an error */
  def decode(bytes: Array[Byte], place: String, file: String): Manifest = {
    val lines = new String(bytes, UTF_8).split('\n')
    val head = lines.headOption.getOrElse("").split(' ')
    if (head.length < 2 || head(0) != Magic || head(1).toIntOption.isEmpty) {
      throw Errors.stateFileCorrupt(file, "it doesn't begin as a manifest does")
    }
    if (head(1).toInt > Format || head(1).toInt < OldestFormat) {
      throw Errors.stateFormatUnsupported(file, head(1).toInt, OldestFormat, Format)
    }
    if (lines.length != 3 || lines(2) != checksum(s"${lines(0)}\n${lines(1)}\n")) {
      throw Errors.stateFileCorrupt(file, "its checksum doesn't fit its content")
    }
    if (head.drop(2).mkString(" ") != place) {
      throw Errors.stateFileCorrupt(file, s"it belongs to '${head.drop(2).mkString(" ")}', not to '$place'")
    }
    try Serialization.read[Manifest](lines(1))
    catch { case NonFatal(e) => throw Errors.stateFileCorrupt(file, "its content can't be read", e) }
  }

  private def checksum(text: String): String = {
    val crc = new CRC32C
    crc.update(text.getBytes(UTF_8))
    f"${crc.getValue}%08x"
  }
}
