package io.tailrace.checkpoint

import java.io.{File, FileNotFoundException, IOException, OutputStream}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.tailrace.{CancellableFSDataOutputStream, CheckpointFileManager}

import io.tailrace.common.{Errors, OnFailure}

/** Reads and writes the files of a checkpoint. A file appears whole and synced, or not at all. Errors name
  * the file, and distinguish a missing file, a damaged file and a failing file system.
  */
final class DurableFiles(open: => CheckpointFileManager) {
  private lazy val manager = open

  /** Writes a file, and replaces one of that name. @return the result of `body` */
  def write[T](path: Path)(body: OutputStream => T): T =
    try put(path, overwrite = true)(body)
    catch { case e: IOException => throw Errors.stateFileUnavailable(path.toString, "written", e) }

  /** @return the result of `body`
    * @throws org.apache.hadoop.fs.FileAlreadyExistsException if the file is there
    */
  def create[T](path: Path)(body: OutputStream => T): T =
    try put(path, overwrite = false)(body)
    catch {
      case e: FileAlreadyExistsException => throw e
      case e: IOException => throw Errors.stateFileUnavailable(path.toString, "written", e)
    }

  /** Opens a file for a writer that takes long. The file appears when the stream is closed. */
  def begin(path: Path, overwrite: Boolean): CancellableFSDataOutputStream =
    try manager.createAtomic(path, overwriteIfPossible = overwrite)
    catch {
      // HDFS and object stores require that the directory exists.
      case _: FileNotFoundException =>
        manager.mkdirs(path.getParent)
        manager.createAtomic(path, overwriteIfPossible = overwrite)
    }

  private def put[T](path: Path, overwrite: Boolean)(body: OutputStream => T): T = {
    val out = begin(path, overwrite)
    OnFailure(out.cancel()) {
      val result = body(out)
      out.hsync()
      out.close()
      result
    }
  }

  /** Lists a directory. A directory that doesn't exist yet is empty. */
  def list(directory: Path): Seq[FileStatus] =
    try manager.list(directory).toSeq
    catch { case _: FileNotFoundException => Nil }

  def names(directory: Path): Seq[String] = list(directory).map(_.getPath.getName)

  def exists(path: Path): Boolean = manager.exists(path)

  /** Deletes a file, or a directory with its content. A path that doesn't exist is no error. */
  def delete(path: Path): Unit = manager.delete(path)

  /** Reads a file that may be missing.
    *
    * @throws io.tailrace.common.TailraceStateException if the file is damaged, or the file system fails
    */
  def find(path: Path): Option[Array[Byte]] = content(path).toOption

  /** Reads a file that must exist.
    *
    * @param neededBy the part of the query that needs the file, for errors: "batch 7"
    * @throws io.tailrace.common.TailraceStateException if the file can't be read
    */
  def read(path: Path, neededBy: => String): Array[Byte] =
    content(path).fold(e => throw Errors.stateFileMissing(path.toString, neededBy, e), identity)

  private def content(path: Path): Either[FileNotFoundException, Array[Byte]] = naming(path) {
    try {
      val in = manager.open(path)
      try Right(in.readAllBytes())
      finally in.close()
    } catch { case e: FileNotFoundException => Left(e) }
  }

  /** Reads a file that must exist and may not fit in memory.
    *
    * @see [[read]]
    */
  def stream[T](path: Path, neededBy: => String)(body: FSDataInputStream => T): T = naming(path) {
    val in = openStream(path, neededBy)
    try body(in)
    finally in.close()
  }

  /** @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_MISSING */
  def openStream(path: Path, neededBy: => String): FSDataInputStream =
    try manager.open(path)
    catch { case e: FileNotFoundException => throw Errors.stateFileMissing(path.toString, neededBy, e) }

  /** The file on a local disk; none: it is elsewhere. */
  def localFile(path: Path): Option[File] = manager match {
    case _: LocalFileManager => Some(new File(path.toUri.getPath))
    case _ => None
  }

  /** Deletes files; if the file system can, by one request for many, without checking that they exist. */
  def deleteAll(paths: Seq[Path]): Unit = BulkDeletes.deleteAll(manager, paths)

  /** The number of files that [[deleteAll]] deletes by one request. */
  def deletePage: Int = BulkDeletes.page(manager)

  private def naming[T](path: Path)(body: => T): T =
    try body
    catch {
      case e: ChecksumException => throw Errors.stateFileCorrupt(path.toString, "its file system says so", e)
      case e: IOException => throw Errors.stateFileUnavailable(path.toString, "read", e)
    }
}

object DurableFiles {

  /** @param directory the files are in it or below it */
  def in(directory: Path, hadoopConf: Configuration): DurableFiles =
    new DurableFiles(TailraceFileManager.forPath(directory, hadoopConf))

  /** Copies a file, which may not fit in memory. */
  def copy(from: Path, to: Path, conf: Configuration, neededBy: String): Unit =
    in(from, conf).stream(from, neededBy) { source =>
      in(to, conf).write(to)(target => source.transferTo(target): Unit)
    }

  /** Copies a directory's files, and those below; nothing if it isn't there.
    *
    * @param neededBy for errors
    */
  def copyAll(from: Path, to: Path, conf: Configuration, neededBy: String): Unit = {
    in(from, conf).list(from).foreach { status =>
      val into = new Path(to, status.getPath.getName)
      if (status.isDirectory) copyAll(status.getPath, into, conf, neededBy)
      else copy(status.getPath, into, conf, neededBy)
    }
  }
}
