package io.tailrace.checkpoint

import java.io.{FileNotFoundException, IOException, InputStream, OutputStream}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  ChecksumException,
  FSDataInputStream,
  FileAlreadyExistsException,
  FileStatus,
  Path
}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

import io.tailrace.common.Errors

/** The files of a checkpoint. Each appears whole and synced, or not at all. Errors name the file, and tell a file that is
  * missing or damaged from a file system that fails.
  */
final class DurableFiles(open: => CheckpointFileManager) {
  private lazy val manager = open

  /** Replaces the file if it is there. @return what `body` gives */
  def write[T](path: Path)(body: OutputStream => T): T =
    try put(path, overwrite = true)(body)
    catch { case e: IOException => throw Errors.stateFileUnavailable(path.toString, "written", e) }

  /** @return what `body` gives
    * @throws org.apache.hadoop.fs.FileAlreadyExistsException if the file is there
    */
  def create[T](path: Path)(body: OutputStream => T): T =
    try put(path, overwrite = false)(body)
    catch {
      case e: FileAlreadyExistsException => throw e
      case e: IOException => throw Errors.stateFileUnavailable(path.toString, "written", e)
    }

  /** A file that comes into being while its writer goes on. It appears when the stream is closed. */
  def begin(path: Path, overwrite: Boolean): CancellableFSDataOutputStream =
    try manager.createAtomic(path, overwriteIfPossible = overwrite)
    catch {
      // HDFS and object stores want the directory of a file to be there.
      case _: FileNotFoundException =>
        manager.mkdirs(path.getParent)
        manager.createAtomic(path, overwriteIfPossible = overwrite)
    }

  private def put[T](path: Path, overwrite: Boolean)(body: OutputStream => T): T = {
    val out = begin(path, overwrite)
    try {
      val result = body(out)
      out.hsync()
      out.close()
      result
    } catch {
      case e: Throwable =>
        try out.cancel()
        catch { case NonFatal(cancelFailure) => e.addSuppressed(cancelFailure) }
        throw e
    }
  }

  /** The content of a directory; nothing if nobody has written into it yet. */
  def list(directory: Path): Seq[FileStatus] =
    try manager.list(directory).toSeq
    catch { case _: FileNotFoundException => Nil }

  def names(directory: Path): Seq[String] = list(directory).map(_.getPath.getName)

  def exists(path: Path): Boolean = manager.exists(path)

  /** Deletes a file, or a directory with all that is in it, if it is there. */
  def delete(path: Path): Unit = manager.delete(path)

  /** @return none if the file isn't there
    * @throws io.tailrace.common.TailraceStateException if it is damaged, or its file system fails
    */
  def find(path: Path): Option[Array[Byte]] = content(path).toOption

  /** @param neededBy what can't go on without the file, for errors: "batch 7"
    * @throws io.tailrace.common.TailraceStateException if it is missing or damaged, or its file system fails
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

  /** Reads a file that may be too long for memory.
    *
    * @see [[read]]
    */
  def stream[T](path: Path, neededBy: => String)(body: InputStream => T): T = naming(path) {
    val in = openStream(path, neededBy)
    try body(in)
    finally in.close()
  }

  /** @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_MISSING */
  def openStream(path: Path, neededBy: => String): FSDataInputStream =
    try manager.open(path)
    catch { case e: FileNotFoundException => throw Errors.stateFileMissing(path.toString, neededBy, e) }

  private def naming[T](path: Path)(body: => T): T =
    try body
    catch {
      case e: ChecksumException =>
        throw Errors.stateFileCorrupt(path.toString, "its file system says so", e)
      case e: IOException => throw Errors.stateFileUnavailable(path.toString, "read", e)
    }
}

object DurableFiles {

  /** @param directory that the files are in, or below */
  def in(directory: Path, hadoopConf: Configuration): DurableFiles =
    new DurableFiles(LocalFileManager.forPath(directory, hadoopConf))
}
