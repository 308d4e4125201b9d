package io.tailrace.windows

import java.util.UUID

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.{JobContext, TaskAttemptContext}
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage
import org.apache.spark.internal.io.{FileCommitProtocol, FileNameSpec}

/** How tasks of one attempt at a batch write its files: into the attempt's own directory, under names that no other task
  * has. What tasks leave behind that were aborted, or that nobody waits for any more, is in no list and goes with the
  * directory.
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

  /** Paths below the directory and lengths of the files of all tasks, when the job has ended. */
  def files: Seq[(String, Long)] = committed

  override def setupJob(job: JobContext): Unit = ()
  override def setupTask(task: TaskAttemptContext): Unit = added = new ArrayBuffer[String]

  override def newTaskTempFile(
      task: TaskAttemptContext,
      dir: Option[String],
      spec: FileNameSpec
  ): String = {
    val number = task.getTaskAttemptID.getTaskID.getId
    val name = f"${spec.prefix}part-$number%05d-$batch-${UUID.randomUUID}${spec.suffix}"
    val path = dir.fold(name)(d => s"$d/$name")
    added += path
    s"$directory/$path"
  }

  override def newTaskTempFileAbsPath(
      task: TaskAttemptContext,
      absoluteDir: String,
      spec: FileNameSpec
  ): String =
    throw new UnsupportedOperationException(s"a file outside of $directory")

  override def commitTask(task: TaskAttemptContext): TaskCommitMessage = {
    val root = new Path(directory)
    val fileSystem = root.getFileSystem(task.getConfiguration)
    new TaskCommitMessage(added.map(p => p -> fileSystem.getFileStatus(new Path(root, p)).getLen).toSeq)
  }

  override def abortTask(task: TaskAttemptContext): Unit = {
    val root = new Path(directory)
    val fileSystem = root.getFileSystem(task.getConfiguration)
    added.foreach(p => fileSystem.delete(new Path(root, p), false))
  }

  override def commitJob(job: JobContext, tasks: Seq[TaskCommitMessage]): Unit =
    committed = tasks.flatMap(_.obj.asInstanceOf[Seq[(String, Long)]])

  override def abortJob(job: JobContext): Unit = {
    val root = new Path(directory)
    root.getFileSystem(job.getConfiguration).delete(root, true)
    ()
  }
}
