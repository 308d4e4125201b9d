package io.tailrace.windows

import java.io.FileNotFoundException
import java.util.UUID

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.mapreduce.{JobContext, TaskAttemptContext}
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage
import org.apache.spark.internal.io.{FileCommitProtocol, FileNameSpec}
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.common.Errors

/** A file that a task has written.
  *
  * @param path   below the staging directory
  * @param start  of the window; none if the rows have no event time
  * @param inside path below the window's directory
  */
final case class StagedFile(path: String, start: Option[Long], inside: String, length: Long, rows: Long)

/** The commit protocol of the tasks that write the files of a batch. They write into a directory of this
  * attempt, under unique names. Files of tasks that failed or were replaced are not committed, and are
  * deleted with the directory.
  *
  * @param directory the attempt's, below `_tailrace/staging`
  */
private[windows] final class StagedFiles(directory: String, batch: Long)
    extends FileCommitProtocol
    with Serializable {

  // On executors.
  @transient private var added: ArrayBuffer[String] = _

  // On the driver.
  @transient private var committed: Seq[(String, Long)] = Nil

  /** Paths below the directory and lengths of all committed files, when the job has ended. */
  def files: Seq[(String, Long)] = committed

  override def setupJob(job: JobContext): Unit = ()
  override def setupTask(task: TaskAttemptContext): Unit = added = new ArrayBuffer[String]

  override def newTaskTempFile(task: TaskAttemptContext, dir: Option[String], spec: FileNameSpec): String = {
    val number = task.getTaskAttemptID.getTaskID.getId
    val name = f"${spec.prefix}part-$number%05d-$batch-${UUID.randomUUID}${spec.suffix}"
    val path = dir.fold(name)(d => s"$d/$name")
    added += path
    s"$directory/$path"
  }

  override def newTaskTempFileAbsPath(task: TaskAttemptContext, dir: String, spec: FileNameSpec): String =
    throw new UnsupportedOperationException(s"a file outside of $directory")

  private def fileSystem(of: JobContext): FileSystem = new Path(directory).getFileSystem(of.getConfiguration)

  override def commitTask(task: TaskAttemptContext): TaskCommitMessage = {
    val files = fileSystem(task)
    new TaskCommitMessage(added.map(p => p -> files.getFileStatus(new Path(directory, p)).getLen).toSeq)
  }

  override def abortTask(task: TaskAttemptContext): Unit =
    added.foreach(path => fileSystem(task).delete(new Path(directory, path), false))

  override def commitJob(job: JobContext, tasks: Seq[TaskCommitMessage]): Unit =
    committed = tasks.flatMap(_.obj.asInstanceOf[Seq[(String, Long)]])

  override def abortJob(job: JobContext): Unit = fileSystem(job).delete(new Path(directory), true): Unit
}

/** Moves the files of a batch from its staging directory to their places, on the driver. A move that was
  * interrupted can be repeated.
  *
  * @param folder  of windows
  * @param staging has a directory for each attempt at a batch
  */
private[windows] final class PlacedFiles(folder: Path, staging: Path, hadoopConf: Configuration) {
  private lazy val fileSystem: FileSystem = folder.getFileSystem(hadoopConf)

  // Directories that are there, unless somebody has deleted them since.
  private val made = mutable.HashSet.empty[Path]

  /** The directory for the files of an attempt at a batch. */
  def newStaging(batch: Long): Path = new Path(staging, s"$batch-${UUID.randomUUID}")

  /** Deletes the files of all attempts. */
  def deleteAll(): Unit = fileSystem.delete(staging, true): Unit

  /** True if some files of a batch may not be in their places yet. */
  def areStaged(batch: BatchFile): Boolean = fileSystem.exists(stagingOf(batch))

  /** @param again whether some files may be in their places already */
  def place(batch: BatchFile, again: Boolean): Unit = {
    if (made.size > PlacedFiles.MostMade) made.clear()
    val directories = batch.files.map(placeOf(_).getParent).distinct.filterNot(made)
    each(directories)(fileSystem.mkdirs(_): Unit)
    made ++= directories
    each(batch.files)(file => if (!again || !isInPlace(file)) move(batch, file))
    fileSystem.delete(stagingOf(batch), true): Unit
  }

  private def move(batch: BatchFile, file: LandedFile): Unit = {
    val from = stagedOf(batch, file)
    val length = lengthOf(from)
    length.filter(_ != file.length).foreach { found =>
      throw Errors.stateFileCorrupt(from.toString, s"it has $found bytes instead of ${file.length}")
    }
    val moved = length.isDefined && (renamed(batch, file) || {
      // A reader may have deleted the directory, when it was empty.
      fileSystem.mkdirs(placeOf(file).getParent)
      renamed(batch, file)
    })
    if (!moved) check(batch, file)
  }

  private def renamed(batch: BatchFile, file: LandedFile): Boolean =
    try fileSystem.rename(stagedOf(batch, file), placeOf(file))
    catch { case _: FileNotFoundException => false }

  /** Refuses a batch if some of its files are neither in their places nor in staging. */
  def check(batch: BatchFile, files: Seq[LandedFile]): Unit = each(files)(check(batch, _))

  private def check(batch: BatchFile, file: LandedFile): Unit =
    if (!isInPlace(file))
      throw WindowErrors.fileMissing(stagedOf(batch, file).toString, placeOf(file).toString, batch.batch)

  private def each[A](items: Seq[A])(work: A => Unit): Unit =
    SparkState.sideBySide("tailrace-landing", PlacedFiles.Threads, items)(work)

  private def stagingOf(batch: BatchFile): Path = new Path(staging, batch.staging)
  private def stagedOf(batch: BatchFile, file: LandedFile): Path = new Path(stagingOf(batch), file.from)
  private def placeOf(file: LandedFile): Path = new Path(folder, file.to)

  private def isInPlace(file: LandedFile): Boolean = lengthOf(placeOf(file)).contains(file.length)

  private def lengthOf(file: Path): Option[Long] =
    try Some(fileSystem.getFileStatus(file).getLen)
    catch { case _: FileNotFoundException => None }
}

private object PlacedFiles {

  /** They wait for the file system: 2,000 files of two calls of 30 ms each are in their places in a second. */
  private val Threads = 128

  private val MostMade = 10000
}
