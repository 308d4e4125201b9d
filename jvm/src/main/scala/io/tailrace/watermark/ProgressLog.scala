package io.tailrace.watermark

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging

import io.tailrace.checkpoint.{DurableFile, LocalFileManager}
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

  private lazy val files = LocalFileManager.forPath(directory, hadoopConf)
  private var sinceSnapshot = 0

  /** Reads what `batch` begins with into a table.
    *
    * @return none if the source is new in the query, or begins anew
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT or ..._FORMAT_UNSUPPORTED,
    *                                                   TAILRACE_WATERMARK_PROGRESS_MISSING if there is no file, or not all
    */
  def load(batch: Long, into: HostTable): Option[ProgressFile] = {
    val (earlier, abandoned) = names().partition(_._1 < batch)
    // An attempt at the batch that died may have left the other kind of file.
    abandoned.values.foreach(name => files.delete(new Path(directory, name)))
    if (earlier.isEmpty && batch == 0) None
    else
      chain(earlier, batch - 1) match {
        case Right(parts) =>
          sinceSnapshot = parts.size - 1
          // The newest first: its hosts are the further ones, and those of the others can only be behind.
          parts.reverse.foreach(_.decode(into))
          Some(parts.head.decode(new HostTable))
        case Left(missing) =>
          val place = if (earlier.isEmpty) directory.toString else missing
          if (!beginsAnew) throw WatermarkErrors.progressMissing(place, batch)
          logWarning(
            s"TAILRACE_WATERMARK_BEGINS: the progress of hosts before batch $batch is missing at $place: it counts from here"
          )
          None
      }
  }

  /** The files from a batch back to the snapshot that they add to, or the one that is missing. */
  private def chain(known: Map[Long, String], batch: Long): Either[String, Seq[Part]] = {
    val file = new Path(directory, known.getOrElse(batch, s"$batch$Delta"))
    val read =
      try Right(DurableFile.read(files, file))
      catch { case _: FileNotFoundException => Left(file.toString) }
    read.flatMap { bytes =>
      val own = Part(file.toString, place(batch), bytes)
      val previous = own.decode(new HostTable).previous
      if (previous < 0) Right(Seq(own))
      else if (previous < batch) chain(known, previous).map(own +: _)
      else throw Errors.stateFileCorrupt(file.toString, s"it adds to the later batch $previous")
    }
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
    val bytes =
      ProgressFile.encode(place(batch), state.copy(previous = from), table, hosts.iterator, hosts.length)
    DurableFile
      .write(files, new Path(directory, s"$batch${if (isDelta) Delta else Snapshot}"))(_.write(bytes))
    sinceSnapshot = if (isDelta) sinceSnapshot + 1 else 0
    if (!isDelta) purge(retainFrom)
  }

  /** What a file says of itself: it stays when a checkpoint is moved. */
  private def place(batch: Long): String = s"${directory.getName}/$batch"

  private def purge(retainFrom: Long): Unit = {
    val known = names()
    val oldest = known.collect { case (b, name) if b <= retainFrom && name.endsWith(Snapshot) => b }.maxOption
    oldest.foreach(o =>
      known.foreach { case (b, name) => if (b < o) files.delete(new Path(directory, name)) }
    )
  }

  private def names(): Map[Long, String] =
    DurableFile.names(files, directory).collect { case name @ Name(batch) => batch.toLong -> name }.toMap
}

object ProgressLog {

  /** A file that has been read. */
  private final case class Part(file: String, place: String, bytes: Array[Byte]) {
    def decode(into: HostTable): ProgressFile = ProgressFile.decode(bytes, file, place, into)
  }

  private val Snapshot = ".snapshot"
  private val Delta = ".delta"
  private val Name = """(\d+)\.(?:snapshot|delta)""".r

  /** So many files are read, besides the snapshot, when a query starts. */
  private val DeltasPerSnapshot = 20
}
