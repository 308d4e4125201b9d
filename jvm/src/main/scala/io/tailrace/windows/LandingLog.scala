package io.tailrace.windows

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.{BatchFiles, CheckedText, DurableFiles}

/** The files below `_tailrace` that say what has happened in a folder: each appears whole or not at all, and of two
  * writers of one name only one gets it.
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

  /** Whether there is anything at all. */
  def isEmpty: Boolean = files.names(paths.folder).forall(isLeftOver)

  /** The newest; older ones are deleted. */
  def newestBatch(): Option[BatchFile] = newest[BatchFile](batches).map(_._2)

  def write(batch: BatchFile): Unit = create(batchFile(batch.batch), batch)

  def deleteBatch(batch: Long): Unit = files.delete(batchFile(batch))

  /** The newest one's number and content; older ones are deleted. */
  def newestClosed(): Option[(Long, ClosedFile)] = newest[ClosedFile](closings)

  def write(number: Long, closed: ClosedFile): Unit = create(closedFile(number), closed)

  def deleteClosed(number: Long): Unit = files.delete(closedFile(number))

  /** Says that a window is closed, unless that has been said. */
  def mark(window: ClosedWindow): Unit = {
    val marker = paths.marker(window.start)
    if (!files.exists(marker)) files.write(marker)(_.write(window.report.getBytes("UTF-8")))
  }

  /** Deletes what a writer that died may have left beside a window's mark. */
  def tidy(start: Long): Unit = {
    val window = paths.window(start)
    val mark = s".${paths.marker(start).getName}."
    files.names(window).filter(n => n.startsWith(mark) && isLeftOver(n)).foreach { left =>
      files.delete(new Path(window, left))
    }
  }

  /** What has been said of a closed window; none if it was never marked, or its directory is gone. */
  def marked(start: Long): Option[WindowReport] =
    files.find(paths.marker(start)).flatMap(bytes => WindowReport.decode(new String(bytes, "UTF-8")))

  private def create(path: Path, content: AnyRef): Unit =
    try files.create(path)(_.write(LandingFile.encode(content, path.getName)))
    catch { case e: FileAlreadyExistsException => throw WindowErrors.twoWriters(path.toString, e) }

  /** What files are written into before they get their names. */
  private def isLeftOver(name: String): Boolean = name.startsWith(".") && name.endsWith(".tmp")

  private def newest[T](kind: BatchFiles)(implicit content: Manifest[T]): Option[(Long, T)] = {
    files.names(kind.directory).filter(isLeftOver).foreach { left =>
      files.delete(new Path(kind.directory, left))
    }
    val found = kind.list().sortBy(_.number)
    kind.delete(found.dropRight(1))
    found.lastOption.map { last =>
      val path = kind.path(last)
      last.number -> LandingFile.decode[T](files.read(path, neededBy = "the folder"), path)
    }
  }
}

/** Whose folder it is, and which windows it has: written once.
  *
  * @param queryId of the query that lands here; it has one checkpoint
  * @param into    the column that directories of windows are named after
  * @param since   the first batch that has landed here: each one since then has its file; none in format 1. It is 0, but in a
  *                folder that an earlier release let a query go on to
  */
final case class FolderFile(
    queryId: String,
    width: Long,
    offset: Long,
    into: String,
    since: Option[Long] = None
) {
  def hasWindowsOf(other: FolderFile): Boolean =
    (width, offset, into) == ((other.width, other.offset, other.into))
}

/** What one micro-batch lands: decided when this is written, whatever happens then.
  *
  * @param offsets what the batch was made of, in short
  * @param staging the attempt that has written the files, below `staging`
  * @param open    rows of the open windows with this batch
  * @param late    rows that have come late, with this batch, of the latest windows that had some
  * @param closings how many there were before it, so that a file of one that is gone is missed; none in format 1
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

  /** Rows of this batch that were late. */
  def lateRows: Long = files.filter(_.late).map(_.rows).sum
  def rows: Long = files.map(_.rows).sum
}

/** @param from  below the staging directory
  * @param to    below the folder
  * @param start of the window; none: the rows have no event time
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

/** Windows that close, and those before them that have: written before the first of them is marked.
  *
  * @param through all windows that end then or before are closed
  */
final case class ClosedFile(through: Long, windows: Seq[ClosedWindow])

/** @param report what its `_SUCCESS` holds */
final case class ClosedWindow(start: Long, report: String)

/** The files below `_tailrace`: three lines each, magic, format and the file's name, JSON, CRC-32C of both; see
  * `jvm/docs/formats.md`. Format 1 has no name.
  */
object LandingFile {
  private val text =
    new CheckedText(
      "tailrace-windows",
      "a file of a folder of windows",
      oldest = 1,
      newest = 2,
      placedSince = 2
    )
  private implicit val formats: Formats = Serialization.formats(NoTypeHints)

  /** @param name of the file: one of another batch isn't believed in its place */
  def encode(content: AnyRef, name: String): Array[Byte] = text.encode(Serialization.write(content), name)

  /** @param file what to call it in an error */
  def decode[T](bytes: Array[Byte], file: Path)(implicit kind: scala.reflect.Manifest[T]): T =
    text.decode(bytes, file.toString, file.getName)(Serialization.read[T](_))
}

/** Where everything is below the folder. Readers of tables pass over what begins with an underscore. */
final class LandingPaths(val folder: Path, into: String) {
  private val own = new Path(folder, "_tailrace")
  val settings = new Path(own, "folder")
  val batches = new Path(own, "batches")
  val closed = new Path(own, "closed")
  val staging = new Path(own, "staging")

  def window(start: Long): Path = new Path(folder, LandingPaths.window(into, start))
  def marker(start: Long): Path = new Path(window(start), "_SUCCESS")
  def late: Path = new Path(folder, LandingPaths.Late)
}

object LandingPaths {

  /** Rows that came when their window was closed, by window. */
  val Late = "_late"

  /** Rows without an event time. */
  val Untimed = "_untimed"

  /** @return the directory's name, as other tools write partitions */
  def window(into: String, start: Long): String = s"$into=${WindowName.of(start)}"
}
