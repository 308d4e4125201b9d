package io.tailrace.sync

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.internal.Logging

import io.tailrace.checkpoint.{DurableFile, LocalFileManager}
import io.tailrace.common.Errors

/** The progress of one synced join in the query's checkpoint: `<batch>.progress`, all partitions of both sides after the
  * batch.
  *
  * The driver writes a batch's file when its tasks have ended, before Spark's commit log says that the batch is done. A
  * batch that runs again begins with the file of the one before it, and replaces its own.
  *
  * @param inUse names of all synced joins of the query
  */
private[sync] final class SyncLog(
    directory: Path,
    hadoopConf: Configuration,
    inUse: () => Set[String] = () => Set.empty
) extends Logging {
  import SyncLog._

  private lazy val files = LocalFileManager.forPath(directory, hadoopConf)
  private var isPurged = false

  /** What `batch` begins with.
    *
    * @return none if the join is new in the query
    * @throws io.tailrace.common.TailraceStateException TAILRACE_SYNC_NAME_CHANGED
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_MISSING, ..._CORRUPT or ..._FORMAT_UNSUPPORTED
    */
  def load(batch: Long): Option[SyncFile] =
    if (batches().exists(_ < batch)) {
      try Some(read(batch - 1))
      catch {
        case e: FileNotFoundException => throw Errors.stateFileMissing(file(batch - 1).toString, batch, e)
      }
    } else {
      if (batch > 0) {
        // Its own may be one that has been renamed; those of the query's other joins aren't.
        val orphans = others().filterNot(inUse())
        if (orphans.nonEmpty) throw SyncErrors.nameChanged(directory.getName, orphans)
        logWarning(
          s"TAILRACE_SYNC_BEGINS: no progress of partitions in $directory before batch $batch: it counts from here"
        )
      }
      None
    }

  /** What `batch` was judged by; none: it isn't known any more, or never was. */
  def times(batch: Long): Option[SyncTimes] =
    try Some(read(batch - 1).times)
    catch { case _: FileNotFoundException => None }

  /** Writes what `batch` has left behind, and deletes what nobody needs to go on from `retainFrom` or later. */
  def write(batch: Long, progress: SyncFile, retainFrom: Long): Unit = {
    DurableFile.write(files, file(batch))(_.write(SyncFile.encode(progress, place(batch))))
    // The file of the batch before is the one to go on from a batch.
    val needed = retainFrom - 1
    if (isPurged) {
      if (needed > 0) files.delete(file(needed - 1))
    } else {
      batches().filter(_ < needed).foreach(b => files.delete(file(b)))
      isPurged = true
    }
  }

  private def read(batch: Long): SyncFile =
    SyncFile.decode(DurableFile.read(files, file(batch)), file(batch).toString, place(batch))

  // In the file: one of another batch, or of another join, would be believed otherwise.
  private def place(batch: Long): String = s"${directory.getName}/$batch"

  private def file(batch: Long): Path = new Path(directory, s"$batch$Suffix")

  /** Names of other joins whose progress is in the checkpoint. */
  private def others(): Seq[String] =
    list(directory.getParent)
      .filter(_.isDirectory)
      .map(_.getPath.getName)
      .filter(_ != directory.getName)
      .sorted

  private def batches(): Seq[Long] =
    list(directory).map(_.getPath.getName).collect { case Name(batch) => batch.toLong }

  private def list(path: Path): Seq[FileStatus] =
    try files.list(path).toSeq
    catch { case _: FileNotFoundException => Nil }
}

private[sync] object SyncLog {
  private val Suffix = ".progress"
  private val Name = """(\d+)\.progress""".r

  def directory(checkpoint: String, name: String): Path =
    new Path(new Path(checkpoint, "tailrace-sync"), name)
}
