package io.tailrace.windows

import java.io.FileNotFoundException
import java.time.Instant
import java.time.temporal.ChronoUnit

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, FileStatus, FileSystem, Path}
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.{BatchFiles, CheckedText, DurableFiles}

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** The log of a folder: the files below `_tailrace`. Each appears whole or not at all, and only one of two
  * writers gets a name.
  */
private[windows] final class LandingLog(paths: LandingPaths, hadoopConf: Configuration) {
  private val files = DurableFiles.in(paths.folder, hadoopConf)
  private val batches = new BatchFiles(paths.batches, files, Seq(".batch"))
  private val closings = new BatchFiles(paths.closed, files, Seq(".closed"))

  def batchFile(batch: Long): Path = batches.path(batch)
  def closedFile(number: Long): Path = closings.path(number)

  def folder: Option[FolderFile] =
    files.find(paths.settings).map(LandingFile.decode[FolderFile](_, paths.settings))

  def begin(folder: FolderFile): Unit = create(paths.settings, folder)

  /** True if the folder has no content. */
  def isEmpty: Boolean = files.names(paths.folder).forall(isLeftOver)

  /** The newest batch. Older files are deleted. */
  def newestBatch(): Option[BatchFile] = newest[BatchFile](batches).map(_._2)

  def write(batch: BatchFile): Unit = create(batchFile(batch.batch), batch)

  def hasBatchAfter(batch: Long): Boolean = batches.list().exists(_.number > batch)

  def deleteBatch(batch: Long): Unit = files.deleteAll(Seq(batchFile(batch)))

  /** The newest closing and its number. Older files are deleted. */
  def newestClosed(): Option[(Long, ClosedFile)] = newest[ClosedFile](closings)

  def write(number: Long, closed: ClosedFile): Unit = create(closedFile(number), closed)

  /** True if there is a closing of this number or a later one. */
  def hasClosed(from: Long): Boolean = closings.list().exists(_.number >= from)

  def deleteClosed(number: Long): Unit = files.deleteAll(Seq(closedFile(number)))

  /** Writes the `_SUCCESS` of a closed window, unless it is there.
    *
    * @param first is called before it is written
    */
  def mark(window: ClosedWindow)(first: => Unit): Unit = {
    val marker = paths.marker(window.start)
    if (!files.exists(marker)) {
      first
      files.write(marker)(_.write(window.report.getBytes("UTF-8")))
    }
  }

  /** Deletes temporary files that a dead writer has left beside a window's `_SUCCESS`. */
  def tidy(start: Long): Unit = deleteLeftOvers(paths.window(start), s".${paths.marker(start).getName}.")

  /** The report in the `_SUCCESS` of a window; none if there is no such file. */
  def marked(start: Long): Option[WindowReport] =
    files.find(paths.marker(start)).flatMap(bytes => WindowReport.decode(new String(bytes, "UTF-8")))

  /** The starts of windows that have a directory. */
  def windows: Seq[Long] = files.names(paths.folder).flatMap(paths.windowOf)

  private def create(path: Path, content: AnyRef): Unit =
    try files.create(path)(_.write(LandingFile.encode(content, path.getName)))
    catch { case e: FileAlreadyExistsException => throw WindowErrors.twoWriters(path.toString, e) }

  /** True if a file is a temporary one, which is renamed when it is complete. */
  private def isLeftOver(name: String): Boolean = name.startsWith(".") && name.endsWith(".tmp")

  private def deleteLeftOvers(directory: Path, prefix: String): Unit =
    files.names(directory).filter(n => n.startsWith(prefix) && isLeftOver(n)).foreach { left =>
      files.delete(new Path(directory, left))
    }

  private def newest[T](kind: BatchFiles)(implicit content: Manifest[T]): Option[(Long, T)] = {
    deleteLeftOvers(kind.directory, ".")
    val found = kind.list().sortBy(_.number)
    kind.delete(found.dropRight(1))
    found.lastOption.map { last =>
      val path = kind.path(last)
      last.number -> LandingFile.decode[T](files.read(path, neededBy = "the folder"), path)
    }
  }
}

/** The query and the windows of a folder. Written once.
  *
  * @param queryId of the query that writes the folder
  * @param into    the column that directories of windows are named after
  * @param since   the first batch that has landed here. Each batch since then has its file. None in format 1;
  *                above 0 only in a folder of an early release
  * @param table   that complete windows go to, with its catalog. None: they stay in the folder
  */
final case class FolderFile(
    queryId: String,
    width: Long,
    offset: Long,
    into: String,
    since: Option[Long] = None,
    table: Option[String] = None
)

/** The files of one micro-batch. The batch has landed when this is written.
  *
  * @param offsets  a digest of the batch's offsets
  * @param staging  the attempt's directory below `staging`
  * @param open     numbers of rows of the open windows, with this batch
  * @param late     numbers of late rows, with this batch, of the latest windows that have some
  * @param closings how many closings there were before it: a missing file of one is noticed. None in format 1
  */
final case class BatchFile(
    batch: Long,
    offsets: String,
    staging: String,
    files: Seq[LandedFile],
    untimed: Long,
    open: Seq[WindowRows],
    late: Seq[WindowRows],
    closings: Option[Long] = None
) {

  /** The number of late rows of this batch. */
  def lateRows: Long = files.filter(_.late).map(_.rows).sum
  def lateWindows: Seq[Long] = files.filter(_.late).flatMap(_.start)
  def rows: Long = files.map(_.rows).sum
}

/** A file of a batch.
  *
  * @param from  path below the staging directory
  * @param to    path below the folder
  * @param start of the window; none if the rows have no event time
  */
final case class LandedFile(
    from: String,
    to: String,
    length: Long,
    rows: Long,
    start: Option[Long],
    late: Boolean
)

final case class WindowRows(start: Long, rows: Long)

/** Windows that close together. They are closed when this is written, before the first of them is marked.
  *
  * @param through all windows that end at this time or before are closed
  */
final case class ClosedFile(through: Long, windows: Seq[ClosedWindow])

/** @param report the content of its `_SUCCESS` */
final case class ClosedWindow(start: Long, report: String)

/** The format of the files below `_tailrace`: JSON in a [[io.tailrace.checkpoint.CheckedText]], see
  * `jvm/docs/formats.md`. In format 1 the place, which is the file's name, is missing.
  */
object LandingFile {
  private val Kind = "a file of a folder of windows"
  private val text = new CheckedText("tailrace-windows", Kind, oldest = 1, newest = 2, placedSince = 2)
  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  /** @param name of the file, its place */
  def encode(content: AnyRef, name: String): Array[Byte] = text.encode(Serialization.write(content), name)

  /** @param file path, for its place and for errors */
  def decode[T](bytes: Array[Byte], file: Path)(implicit kind: scala.reflect.Manifest[T]): T =
    text.decode(bytes, file.toString, file.getName)(Serialization.read[T](_))
}

/** The paths below the folder. Readers of tables ignore names that begin with an underscore. */
final class LandingPaths(val folder: Path, into: String) {
  private val own = new Path(folder, "_tailrace")
  val settings = new Path(own, "folder")
  val batches = new Path(own, "batches")
  val closed = new Path(own, "closed")
  val staging = new Path(own, "staging")

  def window(start: Long): Path = new Path(folder, LandingPaths.window(into, start))
  def marker(start: Long): Path = new Path(window(start), "_SUCCESS")
  def late: Path = new Path(folder, LandingPaths.Late)

  /** The start of the window whose directory has this name; none if it is no window's. */
  def windowOf(name: String): Option[Long] =
    Option.when(name.startsWith(s"$into="))(name.drop(into.length + 1)).flatMap(WindowName.parse)
}

object LandingPaths {

  /** Late rows, by window. */
  val Late = "_late"

  /** Rows without an event time. */
  val Untimed = "_untimed"

  /** The name of a window's directory, in the form of a partition. */
  def window(into: String, start: Long): String = s"$into=${WindowName.of(start)}"

  /** The files with rows in a window's directory; none without a directory. */
  def withRows(fileSystem: FileSystem, directory: Path): Seq[FileStatus] = {
    def isHidden(file: Path) = file.getName.startsWith("_") || file.getName.startsWith(".")
    try fileSystem.listStatus(directory).toSeq.filter(file => file.isFile && !isHidden(file.getPath))
    catch { case _: FileNotFoundException => Nil }
  }
}

/** The completeness of a window when it closed. It is the content of `_SUCCESS`, see `jvm/docs/formats.md`.
  * Times are microseconds.
  *
  * @param rows         the number of rows in the window
  * @param expected     the number of hosts of all sources
  * @param passed       how many hosts have been read up to the window's end
  * @param missing      the other hosts, those that lag most first; only some of them if there are many
  * @param completeness the share of hosts that the query waits for, over all its sources
  * @param low          the low watermark that has closed the window
  */
final case class WindowReport(
    start: Long,
    end: Long,
    rows: Long,
    expected: Long,
    passed: Long,
    missing: Seq[MissingHost],
    completeness: String,
    low: Long,
    closedAt: Long,
    sources: Seq[SourcePart]
)

/** @param progress how far the host's log has been read; none if no row has been read */
final case class MissingHost(source: String, host: String, progress: Option[Long]) {

  /** @param end of the window */
  def lagSeconds(end: Long): Option[Double] = progress.map { p =>
    val lag = end - p
    val overflows = ((end ^ p) & (end ^ lag)) < 0
    (if (overflows) end.toDouble - p.toDouble else lag.toDouble) / 1e6
  }
}

/** The part of a report that is about one source.
  *
  * @param rosterVersion none without a roster
  */
final case class SourcePart(
    source: String,
    completeness: String,
    expected: Long,
    passed: Long,
    rosterVersion: Option[String]
)

object WindowReport {
  private val Format = 2
  private val OldestFormat = 1
  private val MicrosPerSecond = 1000000L
  private val json = new ObjectMapper

  def encode(report: WindowReport): String = {
    val root = json.createObjectNode().put("format", Format)
    root.put("window_start", time(report.start)).put("window_end", time(report.end)).put("rows", report.rows)
    root.put("expected", report.expected).put("passed", report.passed)
    val missing = root.putArray("missing")
    report.missing.foreach { host =>
      val one = missing.addObject().put("source", host.source).put("host", host.host)
      one.put("progress", host.progress.map(time).orNull)
      host.lagSeconds(report.end).foreach(one.put("lag_seconds", _))
    }
    root.put("completeness", report.completeness).put("low_watermark", time(report.low))
    root.put("closed_at", time(report.closedAt))
    val sources = root.putArray("sources")
    report.sources.foreach { s =>
      val one = sources.addObject().put("source", s.source).put("completeness", s.completeness)
      one.put("expected", s.expected).put("passed", s.passed).put("roster_version", s.rosterVersion.orNull)
    }
    json.writeValueAsString(root) + "\n"
  }

  private val Folder = "folder"

  /** A report as a table has it: with the folder of the query, where late rows are. */
  def inTable(report: String, folder: String): String =
    json.writeValueAsString(json.readTree(report).asInstanceOf[ObjectNode].put(Folder, folder))

  /** The folder in a report of a table. */
  def folder(text: String): Option[String] = Option(json.readTree(text).get(Folder)).map(_.asText)

  /** @return none if the text is no report, such as the empty `_SUCCESS` of another writer */
  def decode(text: String): Option[WindowReport] =
    try
      json.readTree(text) match {
        case root: ObjectNode if isKnown(root.path("format").asInt) => Some(read(root))
        case _ => None
      }
    catch { case NonFatal(_) => None }

  private def isKnown(format: Int): Boolean = format >= OldestFormat && format <= Format

  private def read(root: JsonNode): WindowReport =
    WindowReport(
      micros(root.get("window_start")),
      micros(root.get("window_end")),
      root.get("rows").asLong,
      root.get("expected").asLong,
      root.get("passed").asLong,
      root.get("missing").elements.asScala.toSeq.map { host =>
        val progress = Option(host.get("progress")).filterNot(_.isNull).map(micros)
        MissingHost(host.get("source").asText, host.get("host").asText, progress)
      },
      root.get("completeness").asText,
      micros(root.get("low_watermark")),
      micros(root.get("closed_at")),
      root.get("sources").elements.asScala.toSeq.map { s =>
        val (expected, passed) = (s.get("expected").asLong, s.get("passed").asLong)
        // Format 1 has none.
        val roster = Option(s.get("roster_version")).filterNot(_.isNull).map(_.asText)
        SourcePart(s.get("source").asText, s.get("completeness").asText, expected, passed, roster)
      }
    )

  private def time(micros: Long): String = Instant.EPOCH.plus(micros, ChronoUnit.MICROS).toString

  /** Reads all times that [[time]] writes. `Instant` computes differences in nanoseconds, which overflow
    * before 1677 and after 2262.
    */
  private def micros(node: JsonNode): Long = {
    val instant = Instant.parse(node.asText)
    // The second of Long.MinValue, in microseconds, is no long.
    val (second, nanos) =
      if (instant.getEpochSecond < 0) (instant.getEpochSecond + 1, instant.getNano - 1000000000)
      else (instant.getEpochSecond, instant.getNano)
    Math.addExact(Math.multiplyExact(second, MicrosPerSecond), (nanos / 1000).toLong)
  }
}
