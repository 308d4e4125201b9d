package io.tailrace.sync

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging

import io.tailrace.checkpoint.BatchFiles

/** The progress of one synced join in the query's checkpoint: the file `<batch>.progress` has all partitions
  * of both sides after the batch.
  *
  * The driver writes the file when the batch's tasks have ended, before Spark commits the batch. A batch that
  * runs again begins with the file of the batch before it, and replaces its own.
  *
  * @param inUse names of all synced joins of the query
  */
private[sync] final class SyncLog(
    directory: Path,
    hadoopConf: Configuration,
    inUse: () => Set[String] = () => Set.empty
) extends Logging {
  private val batches = new BatchFiles(directory, hadoopConf, ".progress")
  private var isPurged = false

  /** The progress that `batch` begins with.
    *
    * @return none if the join is new in the query
    * @throws io.tailrace.common.TailraceStateException TAILRACE_SYNC_NAME_CHANGED
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_MISSING, ..._CORRUPT or
    * ..._FORMAT_UNSUPPORTED
    */
  def load(batch: Long): Option[SyncFile] =
    if (batches.list().exists(_.number < batch)) {
      Some(decode(batch - 1, batches.files.read(batches.path(batch - 1), neededBy = s"batch $batch")))
    } else {
      if (batch > 0) {
        // One of the other directories may be this join's under a former name, unless another join of the
        // query uses it.
        val orphans = others().filterNot(inUse())
        if (orphans.nonEmpty) throw SyncErrors.nameChanged(directory.getName, orphans)
        logWarning(
          s"TAILRACE_SYNC_BEGINS: no progress of partitions in $directory before batch $batch: " +
            "it counts from here"
        )
      }
      None
    }

  /** The times that `batch` was judged by; none: the file is gone, or never was. */
  def times(batch: Long): Option[SyncTimes] =
    batches.files.find(batches.path(batch - 1)).map(decode(batch - 1, _).times)

  /** Writes the progress after `batch`, and deletes files that aren't needed to go on from `retainFrom` or
    * later.
    */
  def write(batch: Long, progress: SyncFile, retainFrom: Long): Unit = {
    batches.write(batch)(SyncFile.encode(progress, batches.place(batch.toString)))
    // A batch goes on from the file of the batch before it.
    val needed = retainFrom - 1
    if (isPurged) {
      if (needed > 0) batches.files.delete(batches.path(needed - 1))
    } else {
      batches.delete(batches.list().filter(_.number < needed))
      isPurged = true
    }
  }

  private def decode(batch: Long, bytes: Array[Byte]): SyncFile =
    SyncFile.decode(bytes, batches.path(batch).toString, batches.place(batch.toString))

  /** Names of other joins whose progress is in the checkpoint. */
  private def others(): Seq[String] =
    batches.files
      .list(directory.getParent)
      .filter(_.isDirectory)
      .map(_.getPath.getName)
      .filter(_ != directory.getName)
      .sorted
}

private[sync] object SyncLog {
  def directory(checkpoint: String, name: String): Path =
    new Path(new Path(checkpoint, "tailrace-sync"), name)
}
