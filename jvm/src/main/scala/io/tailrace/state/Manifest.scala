package io.tailrace.state

import java.io.{InputStream, StringWriter}

import org.apache.hadoop.fs.Path
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.CheckedText

import com.fasterxml.jackson.core.JsonFactory

/** The part of a run that belongs to one store and one time bucket. Times are microseconds since the epoch.
  *
  * @param expiredRows rows that no longer count, because their result has been emitted
  * @param bytes       keys and values before compression
  * @param schema      the number of the schema of its rows: see [[RowShapes]]
  * @param keys        how many keys its rows have; counted of stores only that keep the newest row of a key
  */
final case class Section(
    store: String,
    bucket: Long,
    rows: Long,
    minTime: Long,
    maxTime: Long,
    bytes: Long,
    expiredRows: Long = 0,
    schema: Int = 0,
    keys: Long = 0
) {
  def kind: StoreKind = StoreKind.named(store).get

  /** Rows that count. */
  def liveRows: Long = if (kind.hasRows) rows - expiredRows else 0L
}

/** One immutable run of the state, and its sections that are alive.
  *
  * @param name   unique: that of its file, or of its manifest's file and a number ([[StateFileNames]])
  * @param level  0 for a batch's run; that of its inputs plus one for a run that a [[Compaction]] has made
  * @param offset where it begins in its file
  */
final case class Run(
    name: String,
    length: Long,
    crc32c: Long,
    sections: Seq[Section],
    level: Int = 0,
    offset: Long = 0
) {

  /** The name of the file that it is in. */
  def file: String = StateFileNames.fileOf(name)
}

/** One version of a partition's state: everything that is needed to load it.
  *
  * @param expiredThrough      results of left rows up to this time (microseconds, included) have been emitted
  * @param rightExpiredThrough [[TailraceStateStore.operatorTime]], by the synced join's name for it; a label join's is a
  *                            watermark, and an as-of join looks at no time up to its own any more
  * @param lateRows            [[TailraceStateStore.lateRows]]
  * @param amendsAfter         [[TailraceStateStore.amendsAfter]]
  */
final case class Manifest(
    version: Long,
    expiredThrough: Long,
    runs: Seq[Run],
    rightExpiredThrough: Long = Long.MinValue,
    lateRows: Seq[LateRows] = Nil,
    amendsAfter: Option[Long] = None
) {
  def fileNames: Set[String] = runs.iterator.map(_.file).toSet

  /** The times through which rows have left. */
  def expiry: Expiry = Expiry(expiredThrough, rightExpiredThrough)
}

/** The times, in microseconds and inclusive, through which the rows of a version have left, by the time that their store
  * expires by: see [[LivingRows]].
  *
  * @param results  [[Manifest.expiredThrough]]
  * @param operator [[Manifest.rightExpiredThrough]]
  */
final case class Expiry(results: Long, operator: Long) {

  /** Rows of a store up to this time have left. */
  def through(kind: StoreKind): Long = kind.expires match {
    case ExpiryTime.Results => results
    case ExpiryTime.Operator => operator
    case ExpiryTime.Never => Long.MinValue
  }

  /** No row of a section that counts is before this time. */
  def notBefore(section: Section): Long = Expiry.notBefore(section, through(section.kind))

  /** True if every row that has left by this has left by a later one, too. */
  def isWithin(later: Expiry): Boolean = results <= later.results && operator <= later.operator
}

object Expiry {

  /** No row of a section after `through` is before this time. */
  def notBefore(section: Section, through: Long): Long =
    if (section.minTime > through || through == Long.MaxValue) section.minTime else through + 1
}

/** A batch has taken rows that were behind the watermark when they came. Which of its rows these are, their times say.
  *
  * @param version   that the batch has made; their sequence numbers begin with it
  * @param watermark that they were behind, microseconds
  */
final case class LateRows(version: Long, watermark: Long)

object Manifest {

  /** The newest layout of manifest and runs that this release writes: where a synced join marks left rows. */
  val Format = 7

  /** The layout of all others: an earlier release continues with them. */
  private val WithoutJoinedLeft = 6

  /** The oldest layout that it reads, where each run has a file of its own. Format 1, an entry for each row,
    * was never released.
    */
  private val OldestFormat = 2
  private val text = new CheckedText("tailrace-state", "a manifest", OldestFormat, Format)

  val empty: Manifest = Manifest(version = 0, expiredThrough = Long.MinValue, runs = Nil)

  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  /** The three lines at the beginning of a manifest's file. The runs that are in the same file follow, in the
    * order in which the manifest names them.
    *
    * @param place the partition. Without it, a manifest without runs would be accepted in any partition
    * @param file  the file's name
    */
  def encode(manifest: Manifest, place: String, file: String): Array[Byte] =
    text.encode(json(manifest, file), place, formatOf(manifest))

  private def formatOf(manifest: Manifest): Int = {
    val isNew = manifest.runs.exists(_.sections.exists(_.store == StoreKind.JoinedLeft.name))
    if (isNew) Format else WithoutJoinedLeft
  }

  /** Reflection over case classes would cost more than the rest of a small commit. */
  private def json(manifest: Manifest, file: String): String = {
    val written = new StringWriter
    val out = new JsonFactory().createGenerator(written)
    out.writeStartObject()
    out.writeNumberField("version", manifest.version)
    out.writeNumberField("expiredThrough", manifest.expiredThrough)
    if (manifest.rightExpiredThrough != Long.MinValue)
      out.writeNumberField("rightExpiredThrough", manifest.rightExpiredThrough)
    if (manifest.lateRows.nonEmpty) {
      out.writeArrayFieldStart("lateRows")
      manifest.lateRows.foreach { late =>
        out.writeStartObject()
        out.writeNumberField("version", late.version)
        out.writeNumberField("watermark", late.watermark)
        out.writeEndObject()
      }
      out.writeEndArray()
    }
    manifest.amendsAfter.foreach(out.writeNumberField("amendsAfter", _))
    out.writeArrayFieldStart("runs")
    manifest.runs.foreach { run =>
      out.writeStartObject()
      val inline = run.file == file
      // An inline run's place depends on the length of this text. So it is not in it.
      out.writeStringField("name", if (inline) run.name.drop(file.length) else run.name)
      if (run.offset > 0 && !inline) out.writeNumberField("offset", run.offset)
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
        if (section.schema > 0) out.writeNumberField("schema", section.schema)
        if (section.keys > 0) out.writeNumberField("keys", section.keys)
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

  /** Reads the beginning of a manifest's file. */
  def readText(in: InputStream): Array[Byte] = text.read(in)

  /** @param lines as [[encode]] has made them
    * @param path  the file's, for errors
    */
  def decode(lines: Array[Byte], place: String, path: Path): Manifest =
    text.decode(lines, path.toString, place) { json =>
      val manifest = Serialization.read[Manifest](json)
      val named = manifest.runs.map { run =>
        if (run.file.isEmpty) run.copy(name = s"${path.getName}${run.name}") else run
      }
      placed(manifest.copy(runs = named), path.getName, lines.length.toLong)
    }

  /** Says where the runs that are in the manifest's own file begin.
    *
    * @param begin the length of the text before the first of them
    */
  def placed(manifest: Manifest, file: String, begin: Long): Manifest = {
    var next = begin
    val runs = manifest.runs.map { run =>
      if (run.file != file) run
      else {
        val at = next
        next += run.length
        run.copy(offset = at)
      }
    }
    manifest.copy(runs = runs)
  }
}
