package io.tailrace.recursion

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

import io.tailrace.checkpoint.{BatchFiles, DurableFiles}
import io.tailrace.common.Errors

/** The rows that go round, in the query's checkpoint, between the micro-batch that gave them and the next one:
  *
  * {{{
  *   <checkpoint>/tailrace-recursion/<name>/<batch>/<run>-<id>-<task>-of-<tasks>.fed
  * }}}
  *
  * A task writes its file before it ends, so before Spark can take the batch for done. The next batch reads them, and they
  * are deleted when the one after that is done: the last batch may have to run again.
  */
private[tailrace] final class FeedbackLog(directory: Path, hadoopConf: Configuration) {
  import FeedbackLog._

  private val batches = new BatchFiles(directory, hadoopConf, Batch)

  /** The number of the next run of a batch. */
  def nextRun(batch: Long): Int = FeedbackName.nextRun(listed(batch).map(_._1))

  /** Says that a task, or a run without tasks, has fed nothing back. */
  def writeEmpty(batch: Long, name: FeedbackName): Unit = {
    batches.files.write(file(batch, name.copy(content = FeedbackContent.NoRows)))(_ => ())
    batches.files.delete(file(batch, name))
  }

  /** The newest run of a batch of which all tasks have written, and its files with rows; none: no run has got that far. */
  def complete(batch: Long): Option[Seq[String]] =
    FeedbackName.complete(listed(batch).map(_._1)).map(files(batch, _).map(_._1))

  /** A task's file that comes into being while the task goes on. */
  def create(batch: Long, name: FeedbackName): CancellableFSDataOutputStream =
    batches.files.begin(file(batch, name), overwrite = true)

  /** Has a task's file appear. A task that runs twice may have had no rows before: random functions give others. */
  def close(file: CancellableFSDataOutputStream, batch: Long, name: FeedbackName): Unit = {
    file.close()
    batches.files.delete(this.file(batch, name.copy(content = FeedbackContent.NoRows)))
  }

  def file(batch: Long, name: FeedbackName): Path = new Path(batches.path(batch), name.toString)

  /** The files that a finished micro-batch has fed back.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_RECURSION_FEEDBACK_INCOMPLETE
    */
  def fedBack(batch: Long): FedBack = {
    val found = listed(batch)
    val attempt = FeedbackName
      .complete(found.map(_._1))
      .getOrElse(throw RecursionErrors.feedbackIncomplete(batches.path(batch).toString, batch))
    FedBack(attempt, withRows(batch, attempt, found).nonEmpty)
  }

  /** The files of a run of a batch that have rows, and their lengths.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT if a task has rows and none: a run of it has
    *                                                   died between its file and the other's end, and nobody knows which counts
    */
  def files(batch: Long, attempt: FeedbackAttempt): Seq[(String, Long)] =
    withRows(batch, attempt, listed(batch))

  private def withRows(
      batch: Long,
      attempt: FeedbackAttempt,
      all: Seq[(FeedbackName, FileStatus)]
  ): Seq[(String, Long)] = {
    val found = all.filter(_._1.attempt == attempt)
    found.groupBy(_._1.task).values.find(_.size > 1).foreach { several =>
      val names = several.map(_._2.getPath).sortBy(_.getName)
      throw Errors.stateFileCorrupt(names.head.toString, s"its task has written ${names.last.getName}, too")
    }
    if (found.map(_._1.task).distinct.size < found.headOption.fold(1)(_._1.tasks)) {
      throw RecursionErrors.feedbackIncomplete(batches.path(batch).toString, batch)
    }
    found.sortBy(_._1.task).collect {
      case (name, status) if name.hasRows(status.getLen) => status.getPath.toString -> status.getLen
    }
  }

  /** Deletes what batches before this one have fed back. */
  def deleteBefore(batch: Long): Unit = batches.delete(batches.list().filter(_.number < batch))

  private def listed(batch: Long): Seq[(FeedbackName, FileStatus)] =
    batches.files
      .list(batches.path(batch))
      .flatMap(status => FeedbackName.parse(status.getPath.getName).map(_ -> status))
}

private[tailrace] object FeedbackLog {

  /** The directory of a batch. */
  private val Batch = ""
  private val Root = "tailrace-recursion"

  /** The place that a file contains. It stays the same when a checkpoint is moved. */
  def place(file: Path): String = {
    val batch = file.getParent
    s"${batch.getParent.getName}/${batch.getName}/${file.getName}"
  }

  def directory(checkpointRoot: String, name: String): Path =
    new Path(new Path(checkpointRoot, Root), name)

  /** Refuses a query whose recursions are others than those that its checkpoint has rows of. Spark counts the sources only, and
    * a recursion that finds nothing under its name would take the rows for lost.
    *
    * @param names of the query's recursions that go round by their log
    * @throws io.tailrace.common.TailraceAnalysisException TAILRACE_RECURSION_CHECKPOINT
    */
  def check(checkpoint: Path, hadoopConf: Configuration, names: Seq[String]): Unit = {
    val files = DurableFiles.in(checkpoint, hadoopConf)
    val commits = new BatchFiles(new Path(checkpoint, "commits"), files, Seq(""))
    // Of a batch that hasn't been committed all, some or none may have written.
    if (commits.list().nonEmpty) {
      val found = files.names(new Path(checkpoint, Root))
      if (found.toSet != names.toSet) {
        val missing = names.diff(found).map(directory(checkpoint.toString, _).toString)
        throw RecursionErrors.checkpoint(checkpoint.toString, found, names, missing)
      }
    }
  }
}

/** @param hasRows whether a row goes round */
private[recursion] final case class FedBack(attempt: FeedbackAttempt, hasRows: Boolean)
