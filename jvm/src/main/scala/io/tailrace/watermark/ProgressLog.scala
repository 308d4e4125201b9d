package io.tailrace.watermark

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging

import io.tailrace.checkpoint.{BatchFiles, CheckedBytes, DurableFiles}
import io.tailrace.common.{Errors, SparkWatermark}
import io.tailrace.explain.SourceFacts

/** The progress of one source in the query's checkpoint:
  *
  * {{{
  *   <batch>.snapshot   all hosts after the batch
  *   <batch>.delta      the hosts that have moved in the batch
  * }}}
  *
  * The driver writes a batch's file when its tasks have ended, before Spark's commit log has the batch. A
  * batch that runs again begins with the file of the batch before it and replaces its own.
  *
  * @param beginsAnew whether a source begins with an empty table if its files are missing; otherwise it fails
  */
final class ProgressLog(directory: Path, hadoopConf: Configuration, beginsAnew: Boolean) extends Logging {
  import ProgressLog._

  private val batches = new BatchFiles(directory, hadoopConf, Delta, Snapshot)
  private var sinceSnapshot = 0

  /** Reads the progress that `batch` begins with.
    *
    * @param into the hosts are added to this table
    * @return none if the source is new in the query, or begins anew
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT or ..._FORMAT_UNSUPPORTED;
    *   TAILRACE_WATERMARK_PROGRESS_MISSING if a file is missing
    */
  def load(batch: Long, into: HostTable): Option[ProgressFile] = {
    val (earlier, abandoned) = batches.list().partition(_.number < batch)
    // A failed attempt at the batch may have left the other kind of file.
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
            s"TAILRACE_WATERMARK_BEGINS: the progress of hosts before batch $batch is missing at $place: " +
              "it counts from here"
          )
          None
      }
  }

  /** The low watermark after a batch, in microseconds, and all hosts, from outside of the query.
    *
    * @throws io.tailrace.common.TailraceStateException as [[load]], whether the source begins anew or not
    */
  private[tailrace] def read(batch: Long): (Long, HostTable) =
    upTo(batch).fold(missing => throw WatermarkErrors.progressMissing(missing, batch + 1), identity)

  /** The same, except that the files of the batch may be missing. */
  def after(batch: Long): Option[(Long, HostTable)] = upTo(batch).toOption

  private def upTo(batch: Long): Either[String, (Long, HostTable)] =
    chain(batches.list().filter(_.number <= batch).map(entry => entry.number -> entry).toMap, batch)
      .map { case (files, hosts) => (files.head.low, hosts) }

  /** Reads the files from a batch back to the snapshot that they add to.
    *
    * @return their content, the newest first, and all hosts; or the path of the file that is missing
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

  /** Writes the progress after `batch`. Deletes files that no start from batch `retainFrom` or later needs.
    *
    * @param moved    numbers of the hosts that have moved in the batch
    * @param previous the last batch that has a file
    */
  def write(
      batch: Long,
      previous: Option[Long],
      state: ProgressFile,
      table: HostTable,
      moved: Array[Int],
      retainFrom: Long
  ): Unit = {
    // A delta of most hosts is as long as a snapshot, and is read in addition to one.
    val isDelta = previous.isDefined && sinceSnapshot < DeltasPerSnapshot && moved.length * 2 <= table.size
    val (suffix, from, hosts) =
      if (isDelta) (Delta, previous.get, moved) else (Snapshot, -1L, Array.range(0, table.size))
    val file = state.copy(previous = from)
    batches.write(batch, suffix)(ProgressFile.encode(batches.place(batch.toString), file, table, hosts))
    sinceSnapshot = if (isDelta) sinceSnapshot + 1 else 0
    if (!isDelta) purge(retainFrom)
  }

  private def purge(retainFrom: Long): Unit = {
    val oldest =
      batches.list().collect { case BatchFiles.Entry(b, Snapshot) if b <= retainFrom => b }.maxOption
    oldest.foreach(batches.deleteBefore)
  }
}

object ProgressLog {

  /** The parent of the directories of all watermarks, below the checkpoint. */
  private[tailrace] val Root = "tailrace-watermark"

  private[tailrace] val Snapshot = ".snapshot"
  private val Delta = ".delta"

  /** The maximum number of deltas that a starting query reads. */
  private val DeltasPerSnapshot = 20
}

/** The progress of a source after one batch: format 3, big-endian, see `jvm/docs/formats.md`.
  *
  * {{{
  *   "TRHP"(4) format(4) place(4 + n) previous batch(8) low watermark(8) the one before it(8) upstream(8)
  *   roster(8) forgotten(8)
  *   entries(4), an entry: name(4 + n) time(8) rows ahead of the clock(8)
  *   CRC-32C of all before(4)
  * }}}
  *
  * Format 1 has no place. Formats 1 and 2 have neither roster nor forgotten rows.
  *
  * @param previous        the batch whose file this one adds to; -1 in a snapshot
  * @param low             the low watermark after the batch, in microseconds
  * @param lowBefore       the low watermark that the batch began with
  * @param upstream        the minimum completeness of the stamps so far; whole without stamps
  * @param roster          the version of the batch's roster; none if the format has none
  * @param forgottenFuture rows ahead of the clock of hosts that are no longer in the table
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

  /** Six longs before the entries. */
  private val FixedLength = 48

  /** @param place of the file: source and batch
    * @param hosts numbers of the hosts to write
    */
  def encode(place: String, file: ProgressFile, table: HostTable, hosts: Array[Int]): Array[Byte] =
    Layout.encode(place, Math.addExact(FixedLength, HostEntries.length(table, hosts))) { out =>
      out.writeLong(file.previous)
      out.writeLong(file.low)
      out.writeLong(file.lowBefore)
      out.writeLong(file.upstream.units)
      out.writeLong(java.lang.Long.parseUnsignedLong(file.roster.getOrElse("0"), 16))
      out.writeLong(file.forgottenFuture)
      HostEntries.write(out, table, hosts)
    }

  /** @param name  of the file, for errors
    * @param place that the file must contain
    * @param into  the hosts are added to this table
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

/** The hosts that hold a query back, by its checkpoint. */
private[tailrace] object SourceWaits {

  /** The number of hosts that are named. */
  val Named = 5

  /** All sources of a query, after a batch. The checkpoint has neither their completeness nor a server. */
  def in(checkpoint: Path, conf: Configuration, batch: Long): Seq[SourceFacts] = {
    val all = new Path(checkpoint, ProgressLog.Root)
    val sources = DurableFiles.in(all, conf).list(all).filter(_.isDirectory).map(_.getPath).sortBy(_.getName)
    sources.flatMap { directory =>
      new ProgressLog(directory, conf, beginsAnew = false).after(batch).map { case (low, table) =>
        of(directory.getName, low, table, 0 until table.size, server = None)
      }
    }
  }

  /** @param hosts numbers of those that count
    * @param low   their low watermark
    */
  def of(
      name: String,
      low: Long,
      table: HostTable,
      hosts: Seq[Int],
      server: Option[Boolean]
  ): SourceFacts = {
    val (unseen, seen) = hosts.partition(table.time(_) == SparkWatermark.Never)
    // The slowest of all, and the slowest that are waited for.
    val (passedBy, waited) = seen.sortBy(table.time).partition(table.time(_) < low)
    SourceFacts(
      name,
      Option.when(low != SparkWatermark.Never)(low),
      hosts.size,
      unseen.take(Named).map(table.name) -> unseen.size,
      (passedBy.take(Named) ++ waited.take(Named)).map(host => table.name(host) -> table.time(host)),
      server
    )
  }
}
