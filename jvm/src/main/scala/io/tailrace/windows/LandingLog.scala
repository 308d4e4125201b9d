package io.tailrace.windows

import java.io.FileNotFoundException

import scala.util.matching.Regex

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}

import io.tailrace.checkpoint.{DurableFile, LocalFileManager}

/** The files below `_tailrace` that say what has happened in a folder: each appears whole or not at all, and of two
  * writers of one name only one gets it.
  */
private[windows] final class LandingLog(paths: LandingPaths, hadoopConf: Configuration) {
  import LandingLog._

  private lazy val files = LocalFileManager.forPath(paths.folder, hadoopConf)

  def folder: Option[FolderFile] =
    try Some(LandingFile.decode[FolderFile](DurableFile.read(files, paths.settings), paths.settings))
    catch { case _: FileNotFoundException => None }

  def begin(folder: FolderFile): Unit = create(paths.settings, folder)

  /** Whether there is anything at all. */
  def isEmpty: Boolean = names(paths.folder).forall(isLeftOver)

  /** The newest; older ones are deleted. */
  def newestBatch(): Option[BatchFile] =
    newest(paths.batches, BatchName, paths.batch).map { case (_, path) =>
      LandingFile.decode[BatchFile](DurableFile.read(files, path), path)
    }

  def write(batch: BatchFile): Unit = create(paths.batch(batch.batch), batch)

  def deleteBatch(batch: Long): Unit = files.delete(paths.batch(batch))

  /** The newest one's number and content; older ones are deleted. */
  def newestClosed(): Option[(Long, ClosedFile)] =
    newest(paths.closed, ClosedName, paths.closed).map { case (number, path) =>
      number -> LandingFile.decode[ClosedFile](DurableFile.read(files, path), path)
    }

  def write(number: Long, closed: ClosedFile): Unit = create(paths.closed(number), closed)

  def deleteClosed(number: Long): Unit = files.delete(paths.closed(number))

  /** Says that a window is closed, unless that has been said. */
  def mark(window: ClosedWindow): Unit = {
    val marker = paths.marker(window.start)
    if (!files.exists(marker)) DurableFile.write(files, marker)(_.write(window.report.getBytes("UTF-8")))
  }

  /** Deletes what a writer that died may have left beside a window's mark. */
  def tidy(start: Long): Unit = {
    val window = paths.window(start)
    val mark = s".${paths.marker(start).getName}."
    names(window).filter(n => n.startsWith(mark) && isLeftOver(n)).foreach { left =>
      files.delete(new Path(window, left))
    }
  }

  /** What has been said of a closed window; none if it was never marked, or its directory is gone. */
  def marked(start: Long): Option[WindowReport] =
    try WindowReport.decode(new String(DurableFile.read(files, paths.marker(start)), "UTF-8"))
    catch { case _: FileNotFoundException => None }

  private def create(path: Path, content: AnyRef): Unit =
    try DurableFile.create(files, path)(_.write(LandingFile.encode(content, path.getName)))
    catch { case e: FileAlreadyExistsException => throw WindowErrors.twoWriters(path.toString, e) }

  private def names(directory: Path): Seq[String] = DurableFile.names(files, directory)

  /** What files are written into before they get their names. */
  private def isLeftOver(name: String): Boolean = name.startsWith(".") && name.endsWith(".tmp")

  private def newest(directory: Path, name: Regex, path: Long => Path): Option[(Long, Path)] = {
    val found = names(directory)
    found.filter(isLeftOver).foreach(left => files.delete(new Path(directory, left)))
    val numbers = found.collect { case name(number) => number.toLong }
    numbers.sorted.dropRight(1).foreach(old => files.delete(path(old)))
    numbers.maxOption.map(number => number -> path(number))
  }
}

private[windows] object LandingLog {
  private val BatchName = """(\d+)\.batch""".r
  private val ClosedName = """(\d+)\.closed""".r
}
