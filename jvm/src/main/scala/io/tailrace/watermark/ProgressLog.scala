package io.tailrace.watermark

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging

import io.tailrace.checkpoint.BatchFiles
import io.tailrace.common.Errors

/** The progress of one source in the query's checkpoint:
  *
  * {{{
  *   <batch>.snapshot   all hosts after the batch
  *   <batch>.delta      those that the batch has moved
  * }}}
  *
  * The driver writes a batch's file when its tasks have ended, before Spark's commit log says that the batch is done. A
  * batch that runs again begins with the file of the one before it, and replaces its own.
  *
  * @param beginsAnew whether a source whose files are missing in a query that has run begins with nothing, as one that is new there
  */
final class ProgressLog(directory: Path, hadoopConf: Configuration, beginsAnew: Boolean) extends Logging {
  import ProgressLog._

  private val batches = new BatchFiles(directory, hadoopConf, Delta, Snapshot)
  private var sinceSnapshot = 0

  /** Reads what `batch` begins with into a table.
    *
    * @return none if the source is new in the query, or begins anew
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT or ..._FORMAT_UNSUPPORTED,
    *                                                   TAILRACE_WATERMARK_PROGRESS_MISSING if there is no file, or not all
    */
  def load(batch: Long, into: HostTable): Option[ProgressFile] = {
    val (earlier, abandoned) = batches.list().partition(_.number < batch)
    // An attempt at the batch that died may have left the other kind of file.
    batches.delete(abandoned)
    if (earlier.isEmpty && batch == 0) None
    else
      chain(earlier.map(e => e.number -> e).toMap, batch - 1) match {
        case Right((states, hosts)) =>
          sinceSnapshot = states.size - 1
          into.raiseAll(hosts)
          states.headOption
        case Left(missing) =>
          val place = if (earlier.isEmpty) directory.toString else missing
          if (!beginsAnew) throw WatermarkErrors.progressMissing(place, batch)
          logWarning(
            s"TAILRACE_WATERMARK_BEGINS: the progress of hosts before batch $batch is missing at $place: it counts from here"
          )
          None
      }
  }

  /** Reads the files from a batch back to the snapshot that they add to.
    *
    * @return what they say, the newest first, and all their hosts; or the file that is missing
    */
  private def chain(
      known: Map[Long, BatchFiles.Entry],
      last: Long
  ): Either[String, (Seq[ProgressFile], HostTable)] = {
    val hosts = new HostTable
    def from(batch: Long): Either[String, List[ProgressFile]] = {
      val path = batches.path(known.getOrElse(batch, BatchFiles.Entry(batch, Delta)))
      batches.files.find(path).toRight(path.toString).flatMap { bytes =>
        val state = ProgressFile.decode(bytes, path.toString, batches.place(batch.toString), hosts)
        if (state.previous >= batch)
          throw Errors.stateFileCorrupt(path.toString, s"it adds to the later batch ${state.previous}")
        if (state.previous < 0) Right(List(state)) else from(state.previous).map(state :: _)
      }
    }
    from(last).map(_ -> hosts)
  }

  /** Writes what `batch` has left behind, and deletes what nobody needs to go on from `retainFrom` or later.
    *
    * @param moved numbers of the hosts that the batch has moved
    * @param previous the batch before it that has a file, if one has
    */
  def write(
      batch: Long,
      previous: Option[Long],
      state: ProgressFile,
      table: HostTable,
      moved: Array[Int],
      retainFrom: Long
  ): Unit = {
    // A delta of most hosts is as long as a snapshot, and must be read beside one.
    val isDelta = previous.isDefined && sinceSnapshot < DeltasPerSnapshot && moved.length * 2 <= table.size
    val (from, hosts) =
      if (isDelta) previous.get -> moved else -1L -> Array.range(0, table.size)
    val file = state.copy(previous = from)
    batches.write(batch, if (isDelta) Delta else Snapshot) {
      ProgressFile.encode(batches.place(batch.toString), file, table, hosts.iterator, hosts.length)
    }
    sinceSnapshot = if (isDelta) sinceSnapshot + 1 else 0
    if (!isDelta) purge(retainFrom)
  }

  private def purge(retainFrom: Long): Unit = {
    val known = batches.list()
    val oldest = known.collect { case BatchFiles.Entry(b, Snapshot) if b <= retainFrom => b }.maxOption
    batches.delete(known.filter(entry => oldest.exists(entry.number < _)))
  }
}

object ProgressLog {
  private val Snapshot = ".snapshot"
  private val Delta = ".delta"

  /** So many files are read, besides the snapshot, when a query starts. */
  private val DeltasPerSnapshot = 20
}
