package io.tailrace.recursion

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.tailrace.CancellableFSDataOutputStream

import io.tailrace.checkpoint.{BatchFiles, DurableFiles}
import io.tailrace.common.Errors

/** The rows that are fed back, in the query's checkpoint, until the next micro-batch reads them:
  *
  * {{{
  *   <checkpoint>/tailrace-recursion/<name>/<batch>/<run>-<id>-<task>-of-<tasks>.fed
  * }}}
  *
  * A task writes its file before it ends, so before Spark can commit the batch. The files are deleted when no
  * batch of Spark's logs can read them: until then the query may be rolled back to it.
  */
private[tailrace] final class FeedbackLog(directory: Path, hadoopConf: Configuration) {
  private val batches = new BatchFiles(directory, hadoopConf, "")

  /** The number of the next run of a batch. */
  def nextRun(batch: Long): Int = FeedbackName.nextRun(listed(batch).map(_._1))

  /** Notes that a task, or a run without tasks, has fed nothing back. */
  def writeEmpty(batch: Long, name: FeedbackName): Unit = {
    batches.files.write(file(batch, name.copy(content = FeedbackContent.NoRows)))(_ => ())
    batches.files.deleteAll(Seq(file(batch, name)))
  }

  /** Begins a task's file, which exists only when it is closed. */
  def create(batch: Long, name: FeedbackName): CancellableFSDataOutputStream =
    batches.files.begin(file(batch, name), overwrite = true)

  /** Ends a task's file. An earlier attempt may have had no rows: random functions give others. */
  def close(file: CancellableFSDataOutputStream, batch: Long, name: FeedbackName): Unit = {
    file.close()
    batches.files.deleteAll(Seq(this.file(batch, name.copy(content = FeedbackContent.NoRows))))
  }

  def file(batch: Long, name: FeedbackName): Path = new Path(batches.path(batch), name.toString)

  /** The newest complete run of a batch; none if no run is complete. */
  def complete(batch: Long): Option[FedBack] = {
    val found = listed(batch)
    FeedbackName.complete(found.map(_._1)).map(attempt => FedBack(attempt, withRows(batch, attempt, found)))
  }

  /** The newest complete run of a batch that has ended.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_RECURSION_FEEDBACK_INCOMPLETE
    */
  def fedBack(batch: Long): FedBack = complete(batch).getOrElse(throw incomplete(batch))

  /** The files with rows of one run of a batch, and their lengths.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT if a task has a file with
    *                                                   rows and one without: an attempt died between them
    */
  def files(batch: Long, attempt: FeedbackAttempt): Seq[(String, Long)] =
    withRows(batch, attempt, listed(batch))

  private def withRows(batch: Long, attempt: FeedbackAttempt, all: Seq[(FeedbackName, FileStatus)]) = {
    val found = all.filter(_._1.attempt == attempt)
    val byTask = found.groupBy(_._1.task)
    byTask.values.find(_.size > 1).foreach { several =>
      val names = several.map(_._2.getPath).sortBy(_.getName)
      throw Errors.stateFileCorrupt(names.head.toString, s"its task has written ${names.last.getName}, too")
    }
    if (byTask.size < found.headOption.fold(1)(_._1.tasks)) throw incomplete(batch)
    found.sortBy(_._1.task).collect {
      case (name, status) if name.hasRows(status.getLen) => status.getPath.toString -> status.getLen
    }
  }

  private def incomplete(batch: Long) =
    RecursionErrors.feedbackIncomplete(batches.path(batch).toString, batch)

  /** Deletes the files of the batches before this one. */
  def deleteBefore(batch: Long): Unit = batches.deleteBefore(batch)

  private def listed(batch: Long): Seq[(FeedbackName, FileStatus)] =
    batches.files
      .list(batches.path(batch))
      .flatMap(status => FeedbackName.parse(status.getPath.getName).map(_ -> status))
}

private[tailrace] object FeedbackLog {
  val Root = "tailrace-recursion"

  /** The place that a file contains. It stays the same when a checkpoint is moved. */
  def place(file: Path): String = {
    val batch = file.getParent
    s"${batch.getParent.getName}/${batch.getName}/${file.getName}"
  }

  def directory(checkpointRoot: String, name: String): Path = new Path(new Path(checkpointRoot, Root), name)

  /** Refuses a query whose recursions aren't those of its checkpoint. Spark only counts the sources, and a
    * recursion under a new name would lose the rows in flight under the old one.
    *
    * @param names the query's recursions that keep a log
    * @throws io.tailrace.common.TailraceAnalysisException TAILRACE_RECURSION_CHECKPOINT
    */
  def check(checkpoint: Path, hadoopConf: Configuration, names: Seq[String]): Unit = {
    val files = DurableFiles.in(checkpoint, hadoopConf)
    // Before the first commit any of the recursions may have a log.
    if (new BatchFiles(new Path(checkpoint, "commits"), files, Seq("")).list().nonEmpty) {
      // A directory without a batch may be one of the query's that has lost its files.
      val found = BatchFiles.directories(new Path(checkpoint, Root), files, names.toSet, "")
      if (found.toSet != names.toSet) {
        val missing = names.diff(found).map(directory(checkpoint.toString, _).toString)
        throw RecursionErrors.checkpoint(checkpoint.toString, found, names, missing)
      }
    }
  }
}

/** @param files the files with rows, and their lengths */
private[recursion] final case class FedBack(attempt: FeedbackAttempt, files: Seq[(String, Long)])
