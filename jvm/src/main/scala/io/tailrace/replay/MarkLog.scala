package io.tailrace.replay

import java.util.{BitSet, LinkedHashMap, Map => JMap}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging

import io.tailrace.checkpoint.BatchFiles

/** The marks of one filter in the query's checkpoint:
  *
  * {{{
  *   <batch>/<attempt>-<task>-of-<tasks>.marks   the marks that a task of the batch has moved
  *   <batch>.snapshot                            all marks after the batch
  * }}}
  *
  * A task writes its file before it ends, so before Spark can take the batch for done. A batch that runs
  * again writes under another attempt. Any complete attempt is right, because the batch has the same records
  * each time. An incomplete attempt of a dead process is never mixed with another one.
  */
final class MarkLog(directory: Path, hadoopConf: Configuration, settings: ReplaySettings) extends Logging {
  import MarkLog._

  private val batches = new BatchFiles(directory, hadoopConf, Batch, Snapshot)

  def write(batch: Long, attempt: String, task: Int, tasks: Int, moved: MarkTable): Unit = {
    val name = s"$attempt-$task-of-$tasks.marks"
    batches.files.write(new Path(batches.path(batch), name)) {
      _.write(MarkFile.encode(moved, batches.place(batch.toString, name)))
    }
  }

  /** The files that make the marks that `batch` begins with.
    *
    * @param known the files that the batch before has begun with, if known: then only that batch's own files
    *              are looked for
    * @throws io.tailrace.common.TailraceStateException TAILRACE_REPLAY_MARKS_INCOMPLETE if an earlier batch's
    *                                                   are not all there: its output wasn't read to the end,
    *                                                   or files are gone; TAILRACE_REPLAY_MARKS_MISSING if
    *                                                   there are none at all
    */
  def before(batch: Long, known: Option[MarkFiles] = None): MarkFiles =
    known.filter(_.batch == batch - 1).fold(listed(batch)) { last =>
      last.copy(deltas = last.deltas :+ (last.batch -> complete(last.batch)), batch = batch)
    }

  /** Has `batch` begin without marks, whatever is missing before it, because the user wants it. Writes an
    * empty snapshot, which hides earlier files.
    */
  def beginAnew(batch: Long): MarkFiles = {
    logWarning(
      s"TAILRACE_REPLAY_BEGINS: no marks in $directory before batch $batch: replays of earlier records pass"
    )
    snapshot(batch - 1, new MarkTable(settings.disorder), Long.MinValue)
  }

  private def listed(batch: Long): MarkFiles = {
    val (snapshots, written) = batches.list().filter(_.number < batch).partition(_.suffix == Snapshot)
    val snapshot = snapshots.map(_.number).maxOption
    // Without a snapshot the marks begin with the query: a filter that began later has an empty snapshot.
    val first = snapshot.fold(0L)(_ + 1)
    if (batch > 0 && snapshot.isEmpty && written.isEmpty) {
      throw ReplayErrors.marksMissing(directory.toString, batch, settings.name)
    }
    MarkFiles(snapshot, (first until batch).map(b => b -> complete(b)), batch)
  }

  private def complete(batch: Long): Seq[String] = {
    val attempts =
      batches.files.names(batches.path(batch)).collect { case name @ Part(attempt, task, tasks) =>
        (attempt, tasks.toInt) -> (task.toInt -> name)
      }
    attempts
      .groupMap(_._1)(_._2)
      .collectFirst {
        case ((_, tasks), parts) if parts.map(_._1).toSet.size == tasks => parts.map(_._2).sorted
      }
      .getOrElse(throw ReplayErrors.marksIncomplete(batches.path(batch).toString, batch, settings.name))
  }

  /** Reads a table, starting from the marks after an earlier batch, if known.
    *
    * @param known that batch and its table, which isn't changed
    */
  def load(wanted: MarkFiles, known: Option[(Long, MarkTable)]): MarkTable = {
    val start = known.filter { case (batch, _) => batch < wanted.batch && wanted.snapshot.forall(_ <= batch) }
    val base = start
      .map(_._2)
      .getOrElse(wanted.snapshot.fold(new MarkTable(settings.disorder))(readSnapshot(_, wanted.batch)))
    val deltas = wanted.deltas.filter { case (batch, _) => start.forall(batch > _._1) }
    deltas.foldLeft(base) { case (table, (batch, names)) => applied(table, batch, names, wanted.batch) }
  }

  private def readSnapshot(batch: Long, wanted: Long): MarkTable = {
    val table = new MarkTable(settings.disorder)
    read(batches.path(batch, Snapshot), batches.place(s"$batch$Snapshot"), table, wanted)(_ => ())
    table
  }

  private def applied(table: MarkTable, batch: Long, names: Seq[String], wanted: Long): MarkTable = {
    // Origins that were forgotten a batch ago need not be kept: no task looks for them any more.
    val next = table.since(settings.forgottenBefore(table.newestMs))
    val seen = new BitSet
    names.foreach { name =>
      read(new Path(batches.path(batch), name), batches.place(batch.toString, name), next, wanted) { entry =>
        // Tasks make sure of it before they end, so these are files of an earlier version, or of two queries.
        if (seen.get(entry)) {
          throw ReplayErrors
            .originSplit(next.pid(entry), next.partition(entry), s"two tasks of batch $batch", "")
        }
        seen.set(entry)
      }
    }
    if (seen.isEmpty) table else next
  }

  private def read(file: Path, place: String, into: MarkTable, wanted: Long)(entry: Int => Unit): Unit =
    MarkFile.decode(batches.files.read(file, neededBy = s"batch $wanted"), file.toString, place, into)(entry)

  /** Writes all marks after a batch, and deletes the files that the marks after `retainFrom` or a later batch
    * don't need.
    *
    * @return the files that the next batch begins with
    */
  def snapshot(batch: Long, table: MarkTable, retainFrom: Long): MarkFiles = {
    batches.write(batch, Snapshot)(MarkFile.encode(table, batches.place(s"$batch$Snapshot")))
    val known = batches.list()
    known.filter(e => e.suffix == Snapshot && e.number <= retainFrom).map(_.number).maxOption.foreach {
      oldest =>
        batches.delete(known.filter(e => e.number < oldest || e.suffix == Batch && e.number == oldest))
    }
    MarkFiles(Some(batch), Nil, batch + 1)
  }
}

object MarkLog {
  private val Snapshot = ".snapshot"

  /** The directory of a batch. */
  private val Batch = ""
  private val Part = """([0-9a-f-]{36})-(\d+)-of-(\d+)\.marks""".r
}

/** The files that make the marks which a batch begins with: a snapshot, if there is one, and the files of
  * each batch since then.
  *
  * @param batch the batch that begins with them
  */
final case class MarkFiles(snapshot: Option[Long], deltas: Seq[(Long, Seq[String])], batch: Long)

/** The newest marks of each filter in this JVM, driver or executor, so that a batch reads only what the batch
  * before it has moved. A table that is here is never changed, so a task that was replaced judges as its
  * successor does.
  */
object MarkCache {

  /** The bound for executors, which aren't told when a query ends. */
  private val MostFilters = 64

  private final class Newest {
    var table: Option[(Long, MarkTable)] = None
  }

  private val filters = new LinkedHashMap[String, Newest](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[String, Newest]): Boolean = this.size > MostFilters
  }

  /** The marks that a batch begins with.
    *
    * @param filter names one filter of one run of a query: another run may begin from another checkpoint
    */
  def get(filter: String, wanted: MarkFiles, log: => MarkLog): MarkTable = {
    val newest = filters.synchronized(filters.computeIfAbsent(filter, (_: String) => new Newest))
    // One task reads, and the other tasks of the batch wait for it.
    newest.synchronized {
      newest.table match {
        case Some((batch, table)) if batch == wanted.batch - 1 => table
        case known =>
          val table = log.load(wanted, known)
          // A late task of an earlier batch must not push out what its successors need.
          if (known.forall(_._1 < wanted.batch - 1)) newest.table = Some((wanted.batch - 1) -> table)
          table
      }
    }
  }

  def drop(filter: String): Unit = filters.synchronized(filters.remove(filter): Unit)

  private[tailrace] def size: Int = filters.synchronized(filters.size)
}
