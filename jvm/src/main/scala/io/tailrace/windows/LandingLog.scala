package io.tailrace.windows

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}

import io.tailrace.checkpoint.{BatchFiles, DurableFiles}

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
