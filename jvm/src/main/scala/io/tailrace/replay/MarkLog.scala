package io.tailrace.replay

import java.util.{BitSet, LinkedHashMap, Map => JMap}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging

import io.tailrace.checkpoint.BatchFiles
import io.tailrace.common.ProcessPart

/** The marks of one filter in the query's checkpoint:
  *
  * {{{
  *   <batch>.marks      the marks that the batch has moved
  *   <batch>.snapshot   all marks after the batch
  * }}}
  *
  * The driver writes the file of a batch before its last task ends, so before Spark can take the batch for
  * done. A batch that runs again has the same records and writes the same marks.
  *
  * Earlier versions wrote a file for each task, `<batch>/<attempt>-<task>-of-<tasks>.marks`. Any complete
  * attempt is right; an incomplete one of a dead process is never mixed with another one.
  */
final class MarkLog(directory: Path, hadoopConf: Configuration, settings: ReplaySettings) extends Logging {
  import MarkLog._

  private val batches = new BatchFiles(directory, hadoopConf, Moved, Snapshot, OfTasks)

  /** @param tables the marks that each task has moved
    * @return the bytes of the file
    */
  def write(batch: Long, tables: Seq[Array[Byte]]): Array[Byte] = {
    val bytes = MarkFile.encode(tables, batches.place(nameOf(batch)))
    batches.write(batch, Moved)(bytes)
    bytes
  }

  /** The files that make the marks that `batch` begins with.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_REPLAY_MARKS_INCOMPLETE if an earlier batch's
    *                                                   are not all there: its output wasn't read to the end,
    *                                                   or files are gone; TAILRACE_REPLAY_MARKS_MISSING if
    *                                                   there are none at all
    */
  def before(batch: Long): MarkFiles = {
    val (snapshots, written) = batches.list().filter(_.number < batch).partition(_.suffix == Snapshot)
    val snapshot = snapshots.map(_.number).maxOption
    // Without a snapshot the marks begin with the query: a filter that began later has an empty snapshot.
    val first = snapshot.fold(0L)(_ + 1)
    if (batch > 0 && snapshot.isEmpty && written.isEmpty) {
      throw ReplayErrors.marksMissing(directory.toString, batch, settings.name)
    }
    val ofBatches = written.filter(_.suffix == Moved).map(_.number).toSet
    def names(b: Long) = if (ofBatches(b)) Seq(nameOf(b)) else ofTasks(b)
    MarkFiles(snapshot, (first until batch).map(b => b -> names(b)), batch)
  }

  /** The files of one complete attempt, by an earlier version. */
  private def ofTasks(batch: Long): Seq[String] = {
    val attempts =
      batches.files.names(batches.path(batch, OfTasks)).collect { case name @ Part(attempt, task, tasks) =>
        (attempt, tasks.toInt) -> (task.toInt -> s"$batch/$name")
      }
    attempts
      .groupMap(_._1)(_._2)
      .collectFirst {
        case ((_, tasks), parts) if parts.map(_._1).toSet.size == tasks => parts.map(_._2).sorted
      }
      .getOrElse(throw ReplayErrors.marksIncomplete(directory.toString, batch, settings.name))
  }

  /** Makes `batch` begin without marks, whatever is missing before it, at the user's request. Writes an
    * empty snapshot, which hides earlier files.
    */
  def beginAnew(batch: Long): MarkFiles = {
    logWarning(
      s"TAILRACE_REPLAY_BEGINS: no marks in $directory before batch $batch: replays of earlier records pass"
    )
    snapshot(batch - 1, new MarkTable(settings.disorder), Long.MinValue)
  }

  /** Reads a table, starting from the marks after an earlier batch, if known.
    *
    * @param known that batch and its table, which isn't changed
    * @param last  the bytes of the last batch's file, if they are there already
    */
  def load(
      wanted: MarkFiles,
      known: Option[(Long, MarkTable)],
      last: => Option[Array[Byte]] = None
  ): MarkTable = {
    val start = known.filter { case (batch, _) => batch < wanted.batch && wanted.snapshot.forall(_ <= batch) }
    val base = start
      .map(_._2)
      .getOrElse(wanted.snapshot.fold(new MarkTable(settings.disorder))(readSnapshot(_, wanted.batch)))
    val deltas = wanted.deltas.filter { case (batch, _) => start.forall(batch > _._1) }
    deltas.foldLeft(base) { case (table, (batch, names)) =>
      val bytes = if (batch == wanted.batch - 1) last else None
      applied(table, batch, names, bytes, wanted.batch)
    }
  }

  private def readSnapshot(batch: Long, wanted: Long): MarkTable = {
    val table = new MarkTable(settings.disorder)
    read(s"$batch$Snapshot", None, table, wanted)(_ => ())
    table
  }

  private def applied(
      table: MarkTable,
      batch: Long,
      names: Seq[String],
      bytes: Option[Array[Byte]],
      wanted: Long
  ): MarkTable = {
    val next = settings.next(table)
    val seen = new BitSet
    names.foreach { name =>
      read(name, bytes, next, wanted) { entry =>
        // The driver makes sure of it before a batch ends, so these are files of an early version, or of two
        // queries.
        if (seen.get(entry)) {
          throw ReplayErrors
            .originSplit(next.pid(entry), next.partition(entry), s"two tasks of batch $batch", "")
        }
        seen.set(entry)
      }
    }
    if (seen.isEmpty) table else next
  }

  private def read(name: String, known: Option[Array[Byte]], into: MarkTable, wanted: Long)(
      entry: Int => Unit
  ): Unit = {
    val file = new Path(directory, name)
    val bytes = known.getOrElse(batches.files.read(file, neededBy = s"batch $wanted"))
    MarkFile.decode(bytes, file.toString, batches.place(name), into)(entry)
  }

  /** Writes all marks after a batch, and deletes the files that the marks after `retainFrom` or a later batch
    * don't need.
    *
    * @return the files that the next batch begins with
    */
  def snapshot(batch: Long, table: MarkTable, retainFrom: Long): MarkFiles = {
    val place = batches.place(s"$batch$Snapshot")
    batches.files.write(batches.path(batch, Snapshot))(MarkFile.write(_, table, place))
    val known = batches.list()
    known.filter(e => e.suffix == Snapshot && e.number <= retainFrom).map(_.number).maxOption.foreach {
      oldest =>
        batches.delete(known.filter(e => e.suffix != Snapshot && e.number == oldest))
        batches.deleteBefore(oldest)
    }
    MarkFiles(Some(batch), Nil, batch + 1)
  }
}

object MarkLog {

  /** The parent of the directories of all filters, below the checkpoint. */
  private[tailrace] val Root = "tailrace-replay"

  private val Moved = ".marks"
  private[tailrace] val Snapshot = ".snapshot"

  /** The directory of a batch that an earlier version has written. */
  private val OfTasks = ""
  private val Part = """([0-9a-f-]{36})-(\d+)-of-(\d+)\.marks""".r

  /** The file of a batch, below the directory. */
  def nameOf(batch: Long): String = s"$batch$Moved"
}

/** The files that make the marks which a batch begins with: a snapshot, if there is one, and the files of
  * each batch since then.
  *
  * @param deltas the names of the files below the directory
  * @param batch  the batch that begins with them
  */
final case class MarkFiles(snapshot: Option[Long], deltas: Seq[(Long, Seq[String])], batch: Long) {

  /** Those of the next batch, when the file of this one is written. */
  def next: MarkFiles = copy(deltas = deltas :+ (batch -> Seq(MarkLog.nameOf(batch))), batch = batch + 1)
}

/** The newest marks of each filter in this JVM. The driver applies the moved marks of a batch to its own table, and
  * sends it to the executors with the next batch. A table that is here is never changed, so a task that was
  * replaced judges as its successor does.
  */
object MarkCache {

  /** Executors aren't notified of a query's end. */
  private val MostFilters = 64

  private final class Newest {
    var table: Option[(Long, MarkTable)] = None

    // A late task of an earlier batch must not evict marks that its successors need.
    def offer(batch: Long, marks: MarkTable): Unit =
      if (table.forall(_._1 < batch)) table = Some(batch -> marks)
  }

  private final class Filters extends LinkedHashMap[String, Newest](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[String, Newest]): Boolean = this.size > MostFilters
  }

  private val part = new ProcessPart("marks")(new Filters)
  private def filters: Filters = part.here

  /** The marks that a batch begins with.
    *
    * @param filter names one filter of one run of a query: another run may begin from another checkpoint
    * @param last   see [[MarkLog.load]]
    */
  def get(
      filter: String,
      wanted: MarkFiles,
      log: => MarkLog,
      last: => Option[Array[Byte]] = None
  ): MarkTable = {
    val newest = of(filter)
    // One task reads, and the other tasks of the batch wait for it.
    newest.synchronized {
      newest.table match {
        case Some((batch, table)) if batch == wanted.batch - 1 => table
        case known =>
          val table = log.load(wanted, known, last)
          newest.offer(wanted.batch - 1, table)
          table
      }
    }
  }

  /** The marks after a batch. */
  def put(filter: String, batch: Long, table: MarkTable): Unit = {
    val newest = of(filter)
    newest.synchronized(newest.offer(batch, table))
  }

  private def of(filter: String): Newest =
    filters.synchronized(filters.computeIfAbsent(filter, (_: String) => new Newest))

  def drop(filter: String): Unit = filters.synchronized(filters.remove(filter): Unit)

  private[tailrace] def size: Int = filters.synchronized(filters.size)
}
