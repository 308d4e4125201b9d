package io.tailrace.watermark

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging

import io.tailrace.checkpoint.{BatchFiles, CheckedBytes}
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

/** What one batch has left of a source's progress: format 3, big-endian, see `jvm/docs/formats.md`.
  *
  * {{{
  *   "TRHP"(4) format(4) place(4 + n) previous batch(8) low watermark(8) the one before it(8) upstream(8)
  *   roster(8) forgotten(8)
  *   entries(4), an entry: name(4 + n) time(8) rows ahead of the clock(8)
  *   CRC-32C of all before(4)
  * }}}
  *
  * Format 1 has no place, and 2 neither the roster nor the rows of those who are forgotten.
  *
  * @param previous the batch whose file this one adds to; -1: none, it holds all hosts
  * @param low      microseconds, after the batch
  * @param lowBefore the one that the batch began with
  * @param upstream  the least completeness that a stamp had, whole where there are none
  * @param roster    the version of the roster that the batch was run with; none: the file doesn't say
  * @param forgottenFuture rows ahead of the clock of hosts that aren't in the table any more
  */
final case class ProgressFile(
    previous: Long,
    low: Long,
    lowBefore: Long,
    upstream: Completeness,
    roster: Option[String],
    forgottenFuture: Long
)

object ProgressFile {
  private val Layout =
    new CheckedBytes(0x54524850, "a table of hosts", oldest = 1, newest = 3, placedSince = 2)

  /** @param place source and batch that it is of
    * @param hosts those that go into the file
    */
  def encode(
      place: String,
      file: ProgressFile,
      table: HostTable,
      hosts: Iterator[Int],
      count: Int
  ): Array[Byte] =
    Layout.encode(place) { out =>
      out.writeLong(file.previous)
      out.writeLong(file.low)
      out.writeLong(file.lowBefore)
      out.writeLong(file.upstream.units)
      out.writeLong(java.lang.Long.parseUnsignedLong(file.roster.getOrElse("0"), 16))
      out.writeLong(file.forgottenFuture)
      HostEntries.write(out, table, hosts, count)
    }

  /** @param name  of the file, for errors
    * @param place source and batch that it must be of
    * @param into  gets the entries
    */
  def decode(bytes: Array[Byte], name: String, place: String, into: HostTable): ProgressFile =
    Layout.decode(bytes, name, place) { (format, in) =>
      val (previous, low, lowBefore) = (in.getLong(), in.getLong(), in.getLong())
      val upstream = Completeness.ofUnits(in.getLong())
      val roster = Option.when(format > 2)(f"${in.getLong()}%016x")
      val forgotten = if (format > 2) in.getLong() else 0L
      HostEntries.read(in, into)
      ProgressFile(previous, low, lowBefore, upstream, roster, forgotten)
    }
}
