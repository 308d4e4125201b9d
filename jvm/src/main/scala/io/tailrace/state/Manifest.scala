package io.tailrace.state

import java.io.{InputStream, StringWriter}
import java.util.{Arrays, UUID}

import scala.util.matching.Regex

import org.apache.hadoop.fs.Path
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.CheckedText

import com.fasterxml.jackson.core.{JsonFactory, JsonGenerator}

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
  * @param balance             [[TailraceStateStore.balance]]
  */
final case class Manifest(
    version: Long,
    expiredThrough: Long,
    runs: Seq[Run],
    rightExpiredThrough: Long = Long.MinValue,
    lateRows: Seq[LateRows] = Nil,
    amendsAfter: Option[Long] = None,
    balance: Option[BalanceCounts] = None
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

  /** The newest layout of manifest and runs that this release writes: where negatives are sampled at a ratio, or a
    * label join notes matched right rows.
    */
  val Format = 8

  /** The layout where a synced join marks left rows. */
  private val WithJoinedLeft = 7

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
    def has(kind: StoreKind) = manifest.runs.exists(_.sections.exists(_.store == kind.name))
    if (manifest.balance.nonEmpty || has(StoreKind.MatchedRight)) Format
    else if (has(StoreKind.JoinedLeft)) WithJoinedLeft
    else WithoutJoinedLeft
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
    manifest.balance.foreach(write(_, out))
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

  private def write(balance: BalanceCounts, out: JsonGenerator): Unit = {
    out.writeObjectFieldStart("balance")
    out.writeArrayFieldStart("labels")
    balance.labels.foreach(out.writeString)
    out.writeEndArray()
    out.writeArrayFieldStart("steps")
    balance.steps.foreach { step =>
      out.writeStartObject()
      out.writeNumberField("time", step.time)
      out.writeArrayFieldStart("positives")
      step.positives.foreach(out.writeNumber(_))
      out.writeEndArray()
      out.writeNumberField("negatives", step.negatives)
      out.writeEndObject()
    }
    out.writeEndArray()
    out.writeEndObject()
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

/** The batches that have taken late rows: they say which rows were late, and in which batch.
  *
  * @param batches oldest first
  */
private[tailrace] final class LateBatches(batches: Seq[LateRows]) {
  private val firsts = batches.map(b => RowLayout.firstSeq(b.version)).toArray
  private val watermarks = batches.map(_.watermark).toArray

  // Most rows came before all of these batches.
  private val least = if (firsts.isEmpty) Long.MaxValue else firsts(0)

  /** The number of the batch that took a row late; -1 if the row wasn't late. */
  def of(seq: Long, time: Long): Int =
    if (seq < least) -1
    else {
      val found = Arrays.binarySearch(firsts, seq)
      // The last of the batches that isn't after the row's. A row of another batch is after the watermark of both.
      val batch = if (found >= 0) found else -found - 2
      if (time <= watermarks(batch)) batch else -1
    }
}

/** The names of the files of one partition's state:
  *
  * {{{
  *   7.1-<unique>.manifest    version 7, made by a first attempt       checkpoint format 1 of Spark
  *   7_<id>.manifest          version 7, by the attempt of that id     checkpoint format 2
  *   7.manifest               version 7, of an earlier release         checkpoint format 1
  *   7-<unique>.run           a run of its own, by the batch that made version 7, or compacted while it ran
  * }}}
  *
  * A run in a manifest's file has its name and a number: `7_<id>.manifest#0`. So a manifest's file may be
  * needed for its runs long after its version. No other attempt may write over it, and each has its own name.
  */
object StateFileNames {
  private val Manifest = """(\d+)(?:\.(\d+)-.+|_.+)?\.manifest""".r
  private val OfRun = """(\d+)-.+\.run""".r

  def run(version: Long): String = s"$version-${UUID.randomUUID}.run"

  /** @param attempt a later attempt's is greater. Of equal ones either counts */
  def manifest(version: Long, attempt: Int): String = s"$version.$attempt-${UUID.randomUUID}.manifest"

  /** The manifest of the attempt that Spark knows by an id. */
  def manifestOf(version: Long, id: String): String = s"${version}_$id.manifest"

  /** A run in a manifest's file. */
  def inline(manifest: String, number: Int): String = s"$manifest#$number"

  def isInline(run: String): Boolean = run.contains('#')

  /** The file that a run is in. */
  def fileOf(run: String): String = run.takeWhile(_ != '#')

  /** The version that was being made when the run was written. */
  def runVersion(run: String): Option[Long] = {
    val file = fileOf(run)
    versionIn(file, OfRun).orElse(manifestVersion(file))
  }

  def manifestVersion(file: String): Option[Long] = versionIn(file, Manifest)

  /** The attempt that has made a version without an id; 0 of an earlier release. */
  def attempt(manifest: String): Option[Int] = manifest match {
    case Manifest(_, number) if !manifest.contains('_') => Some(Option(number).fold(0)(_.toInt))
    case _ => None
  }

  /** True if another attempt may write over the manifest, as in an earlier release. */
  def isReplaceable(manifest: String): Boolean = attempt(manifest).contains(0)

  private def versionIn(name: String, pattern: Regex): Option[Long] =
    pattern.unapplySeq(name).map(_.head.toLong)
}
