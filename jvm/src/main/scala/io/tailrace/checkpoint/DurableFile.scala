package io.tailrace.checkpoint

import java.io.{FileNotFoundException, IOException, OutputStream}

import scala.util.control.NonFatal

import org.apache.hadoop.fs.{ChecksumException, FileAlreadyExistsException, FileStatus, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.tailrace.common.Errors

/** One file of a checkpoint: it appears whole and synced, or not at all. */
object DurableFile {

  /** Replaces the file if it is there. @return what `body` gives */
  def write[T](files: CheckpointFileManager, path: Path)(body: OutputStream => T): T =
    try put(files, path, overwrite = true)(body)
    catch { case e: IOException => throw Errors.stateFileUnavailable(path.toString, "written", e) }

  /** @return what `body` gives
    * @throws org.apache.hadoop.fs.FileAlreadyExistsException if the file is there
    */
  def create[T](files: CheckpointFileManager, path: Path)(body: OutputStream => T): T =
    try put(files, path, overwrite = false)(body)
    catch {
      case e: FileAlreadyExistsException => throw e
      case e: IOException => throw Errors.stateFileUnavailable(path.toString, "written", e)
    }

  /** A file that comes into being while its writer goes on; it appears when the stream is closed. */
  def open(
      files: CheckpointFileManager,
      path: Path,
      overwrite: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream =
    try files.createAtomic(path, overwriteIfPossible = overwrite)
    catch {
      // HDFS and object stores want the directory of a file to be there.
      case _: FileNotFoundException =>
        files.mkdirs(path.getParent)
        files.createAtomic(path, overwriteIfPossible = overwrite)
    }

  private def put[T](files: CheckpointFileManager, path: Path, overwrite: Boolean)(
      body: OutputStream => T
  ): T = {
    val out = open(files, path, overwrite)
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

  /** What is in a directory; nothing if nobody has written into it yet. */
  def list(files: CheckpointFileManager, directory: Path): Seq[FileStatus] =
    try files.list(directory).toSeq
    catch { case _: FileNotFoundException => Nil }

  /** The names of what is there. */
  def names(files: CheckpointFileManager, directory: Path): Seq[String] =
    list(files, directory).map(_.getPath.getName)

  /** @throws io.tailrace.common.TailraceStateException if it is damaged, or its file system fails
    * @throws java.io.FileNotFoundException if it isn't there, which is for the caller to judge
    */
  def read(files: CheckpointFileManager, path: Path): Array[Byte] =
    try {
      val in = files.open(path)
      try in.readAllBytes()
      finally in.close()
    } catch {
      case e: ChecksumException =>
        throw Errors.stateFileCorrupt(path.toString, "its file system says so", e)
      case e: FileNotFoundException => throw e
      case e: IOException => throw Errors.stateFileUnavailable(path.toString, "read", e)
    }
}
