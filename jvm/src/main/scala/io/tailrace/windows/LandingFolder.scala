package io.tailrace.windows

import java.io.FileNotFoundException
import java.lang.ref.WeakReference
import java.util.UUID

import scala.collection.immutable.TreeMap
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.mapreduce.{JobContext, TaskAttemptContext}
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage
import org.apache.spark.internal.io.{FileCommitProtocol, FileNameSpec}
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.common.{Durations, Errors}

/** A folder of windows, on the driver. Each row of a batch lands in its window's directory exactly once. A
  * window gets its `_SUCCESS` when no row will land in that directory any longer.
  *
  * {{{
  *   tasks ──> _tailrace/staging/7-<attempt>/...      hidden: a failed attempt leaves nothing else
  *     │
  *   land:  7.batch, in one step: which file goes where, and which rows are late
  *     │    does another driver write here? Then the query ends
  *     │    the files to their places, side by side; staging is deleted when all are there
  *     │
  *   close: 3.closed, in one step: which windows, with their reports; the same question
  *          <window>/_SUCCESS, one after the other
  * }}}
  *
  * The next run that opens the folder finishes the newest batch and the newest closing. The batch's file
  * decides which rows are late, and no window closes meanwhile.
  *
  * With a table, a window goes there before it gets its `_SUCCESS`. Then its files are deleted.
  *
  * @param table that complete windows go to
  * @param lock shared by all who open the folder in this JVM. The last one owns it
  */
final class LandingFolder private[windows] (
    path: Path,
    settings: LandingSettings,
    hadoopConf: Configuration,
    lock: WrittenFolders.Slot,
    table: Option[WindowTable] = None
) {
  import LandingFolder._

  private val paths = new LandingPaths(path, settings.into)
  private val log = new LandingLog(paths, hadoopConf)
  private val placing = new PlacedFiles(path, paths.staging, hadoopConf)

  private var owner: Option[FolderFile] = None
  private var newest: Option[BatchFile] = None
  private var windows = OpenWindows.none(settings.windows)
  private var late = TreeMap.empty[Long, Long]
  private var closings = 0L
  private var unmarked = Seq.empty[ClosedWindow]

  // No window may close after a batch's file is written and before its last file is moved.
  private var landing = false

  /** Reads the log, and completes unfinished work of the last run. */
  private[windows] def open(): Unit = {
    owner = log.folder
    owner.foreach(checkSettings)
    newest = log.newestBatch()
    newest.filter(placing.areStaged).foreach(placing.place(_, again = true))
    placing.deleteAll()
    val closed = log.newestClosed()
    checkClosed(closed)
    closings = closed.fold(0L)(_._1 + 1)
    unmarked = closed.toSeq.flatMap(_._2.windows)
    unmarked.foreach(window => log.tidy(window.start))
    finishMarking(isAgain = true)
    val known = newest.toSeq.flatMap(_.open).map(w => w.start -> w.rows)
    val none = windows.copy(through = closed.map(_._2.through))
    windows = none.add(known.filterNot(w => none.isClosed(w._1)))
    late = TreeMap.from(newest.toSeq.flatMap(_.late).map(w => w.start -> w.rows))
  }

  /** Without this check a missing file of a closing would open its windows again. */
  private def checkClosed(closed: Option[(Long, ClosedFile)]): Unit = newest.foreach { batch =>
    def missing(number: Long) =
      Errors.stateFileMissing(log.closedFile(number).toString, s"batch ${batch.batch}")
    val known = closed.fold(0L)(_._1 + 1)
    batch.closings.filter(_ > known).foreach(made => throw missing(made - 1))
    // Only the windows' own files show the first closing after that batch.
    val through = closed.map(_._2.through)
    val open = batch.open.map(_.start).filterNot(windows.copy(through = through).isClosed)
    if (open.exists(log.marked(_).isDefined)) throw missing(known)
  }

  private def settingsOf(queryId: String, since: Option[Long]): FolderFile = {
    val windows = settings.windows
    FolderFile(queryId, windows.width, windows.offset, settings.into, since, table.map(_.name))
  }

  private def checkSettings(folder: FolderFile): Unit = {
    val wanted = settingsOf(folder.queryId, folder.since)
    if (folder != wanted) {
      def told(f: FolderFile) =
        s"windows of ${Durations.text(f.width)} from ${Durations.text(f.offset)} on, named ${f.into}, " +
          f.table.fold("as Parquet")(name => s"in the table $name")
      throw WindowErrors.folder(path.toString, s"it has ${told(folder)}, and not ${told(wanted)}")
    }
  }

  /** Makes sure, before a query's next batch, that the folder is this query's. */
  def begin(queryId: String, batch: Long): Unit = owned {
    owner match {
      case Some(folder) if folder.queryId == queryId =>
      case Some(folder) =>
        val reason = s"the query ${folder.queryId} writes it, and this one is $queryId"
        throw WindowErrors.folder(path.toString, reason)
      case None if batch > 0 && !log.isEmpty =>
        throw Errors.stateFileMissing(paths.settings.toString, s"batch $batch")
      // Otherwise windows would close here though some of their rows are elsewhere.
      case None if batch > 0 =>
        val reason = s"the micro-batches of this query before $batch have landed elsewhere"
        throw WindowErrors.folder(path.toString, reason)
      case None =>
        val folder = settingsOf(queryId, Some(batch))
        log.begin(folder)
        owner = Some(folder)
    }
  }

  /** The file of a batch that runs again after it has landed; `offsets` is a digest of its offsets. */
  def landed(batch: Long, offsets: String): Option[BatchFile] = owned {
    checkNewest(batch)
    newest.filter(_.batch >= batch).map { known =>
      if (known.batch != batch || known.offsets != offsets)
        throw WindowErrors.rolledBack(path.toString, batch, known.batch)
      // A reader may have taken the files of closed windows away.
      placing.check(known, known.files.filter(file => !file.late && file.start.exists(!windows.isClosed(_))))
      known
    }
  }

  /** Refuses a batch if the file of the one before it is missing. Early releases wrote none without rows. */
  private def checkNewest(batch: Long): Unit = {
    val left = newest.fold(owner.flatMap(_.since))(file => file.closings.map(_ => file.batch + 1))
    if (left.exists(_ < batch)) {
      // A file is deleted when the next one is there: an older file means that the query left the folder.
      newest.foreach(last => throw WindowErrors.left(path.toString, batch, last.batch))
      throw Errors.stateFileMissing(log.batchFile(batch - 1).toString, s"batch $batch")
    }
  }

  /** The directory for the files of an attempt at a batch. */
  def newStaging(batch: Long): Path = placing.newStaging(batch)

  /** Lands a batch: writes its file, then moves its files to their places. */
  def land(batch: Long, offsets: String, staging: Path, staged: Seq[StagedFile]): BatchFile = owned {
    val files = staged.map(placed)
    val onTime = files.filterNot(_.late).flatMap(f => f.start.map(_ -> f.rows))
    val (open, lateNow) = (windows.add(onTime), countLate(files))
    val file = BatchFile(
      batch,
      offsets,
      staging.getName,
      files,
      files.filter(_.start.isEmpty).map(_.rows).sum,
      windowRows(open.rows),
      windowRows(lateNow),
      Some(closings)
    )
    landing = true
    log.write(file)
    checkAlone(batch)
    placing.place(file, again = false)
    newest.foreach(before => log.deleteBatch(before.batch))
    newest = Some(file)
    windows = open
    late = lateNow
    landing = false
    file
  }

  /** Must be called after each file of the log is written, before anything follows from it. A file's name is free
    * again when a later one exists: a driver that was overtaken would get it, and its rows would land twice. And
    * windows that this driver considers open may be closed. Each of two drivers first writes and then looks, so one of
    * them sees the other.
    *
    * @param batch that has landed last, or lands
    */
  private def checkAlone(batch: Long): Unit =
    if (log.hasBatchAfter(batch) || log.hasClosed(closings))
      throw WindowErrors.twoWriters(path.toString, null)

  private def windowRows(counts: TreeMap[Long, Long]): Seq[WindowRows] =
    counts.toSeq.map { case (start, rows) => WindowRows(start, rows) }

  private def placed(file: StagedFile): LandedFile = {
    val late = file.start.exists(windows.isClosed)
    val window = file.start.map(LandingPaths.window(settings.into, _)).getOrElse(LandingPaths.Untimed)
    val directory = if (late) s"${LandingPaths.Late}/$window" else window
    LandedFile(file.path, s"$directory/${file.inside}", file.length, file.rows, file.start, late)
  }

  private def countLate(files: Seq[LandedFile]): TreeMap[Long, Long] = {
    val all = files.filter(_.late).flatMap(f => f.start.map(_ -> f.rows)).foldLeft(late) {
      case (counts, (start, rows)) => counts.updated(start, counts.getOrElse(start, 0L) + rows)
    }
    all.drop(all.size - MostLate)
  }

  /** True if a low watermark closes windows. */
  def closes(low: Long): Boolean = owned(!landing && (unmarked.nonEmpty || windows.close(low).isDefined))

  /** Closes the windows that end at a low watermark or before.
    *
    * @param report makes the reports of windows, which are given by start and number of rows
    * @return the reports of the windows that have closed
    */
  def close(low: Long, report: Seq[(Long, Long)] => Seq[WindowReport]): Seq[WindowReport] = owned {
    if (landing) Nil
    else {
      finishMarking(isAgain = true)
      windows.close(low).toSeq.flatMap { closing =>
        val reports = report(closing.closed)
        val marks = reports.map(r => ClosedWindow(r.start, WindowReport.encode(r)))
        log.write(closings, ClosedFile(closing.left.through.get, marks))
        windows = closing.left
        closings += 1
        newest.foreach(last => checkAlone(last.batch))
        unmarked = marks
        finishMarking(isAgain = false)
        if (closings > 1) log.deleteClosed(closings - 2)
        reports
      }
    }
  }

  /** @param isAgain whether the table may have some of the windows */
  private def finishMarking(isAgain: Boolean): Unit = {
    unmarked.foreach { window =>
      val directory = paths.window(window.start)
      log.mark(window)(table.foreach(_.commit(owner.get.queryId, window, directory, isAgain)))
      if (table.isDefined) placing.deleteRows(directory)
    }
    unmarked = Nil
  }

  /** The reports and late rows of the windows in the newest closing, and of those with late rows in the
    * newest batch: the last run may have ended before it told a server of them.
    */
  def latest: Seq[(WindowReport, Long)] = owned {
    val closed = log.newestClosed().toSeq.flatMap(_._2.windows).map(_.start)
    withLateRows(closed ++ newest.toSeq.flatMap(_.lateWindows))
  }

  /** The reports of the windows that a batch has late rows for, and the total of their late rows. */
  def lateIn(batch: BatchFile): Seq[(WindowReport, Long)] = owned(withLateRows(batch.lateWindows))

  private def withLateRows(starts: Seq[Long]): Seq[(WindowReport, Long)] =
    starts.distinct.sorted.map(start => reportOf(start) -> late.getOrElse(start, 0L))

  /** A window that ended before the first row landed has no report. It is made here, without hosts. */
  private def reportOf(start: Long): WindowReport = log.marked(start).getOrElse {
    val end = settings.windows.end(start)
    WindowReport(start, end, 0, 0, 0, Nil, settings.completeness.toString, end, end, Nil)
  }

  def state: OpenWindows = lock.synchronized(windows)

  private def owned[T](body: => T): T = lock.synchronized {
    if (!lock.isOwnedBy(this)) throw WindowErrors.twoWriters(path.toString, null)
    body
  }
}

object LandingFolder {

  /** The number of windows whose late rows are counted, as on a watermark server. All late rows are kept. */
  private val MostLate = 1000
}

/** The folders that queries of this JVM write. Only one query at a time writes a folder. */
object WrittenFolders {

  /** The lock of a folder, and its owner. */
  private[windows] final class Slot {
    private var folder: LandingFolder = _
    private var isRunning: () => Boolean = () => false

    def isOwnedBy(candidate: LandingFolder): Boolean = synchronized(folder eq candidate)
    def isBusy: Boolean = synchronized(isRunning())
    def take(by: LandingFolder, running: () => Boolean): Unit = synchronized {
      folder = by
      isRunning = running
    }
  }

  // Writers keep the slot of their folder alive, and so does a sink that isn't started yet.
  private val slots = mutable.HashMap.empty[String, WeakReference[Slot]]

  private def slot(path: Path): Slot = slots.synchronized {
    slots.filterInPlace((_, kept) => kept.get != null)
    val known = slots.get(path.toString).flatMap(kept => Option(kept.get))
    val slot = known.getOrElse(new Slot)
    if (known.isEmpty) slots(path.toString) = new WeakReference(slot)
    slot
  }

  private[windows] def size: Int = slots.synchronized(slots.values.count(_.get != null))

  /** @param isRunning whether the query that opens it is running
    * @throws io.tailrace.common.TailraceAnalysisException if it has other windows, or another query that runs
    */
  def open(
      path: Path,
      settings: LandingSettings,
      hadoopConf: Configuration,
      isRunning: () => Boolean,
      table: Option[WindowTable] = None
  ): LandingFolder = {
    val lock = slot(path)
    lock.synchronized {
      if (lock.isBusy) throw WindowErrors.folder(path.toString, "a query that runs in this session writes it")
      val folder = new LandingFolder(path, settings, hadoopConf, lock, table)
      folder.open()
      lock.take(folder, isRunning)
      folder
    }
  }
}

/** A file that a task has written.
  *
  * @param path   below the staging directory
  * @param start  of the window; none if the rows have no event time
  * @param inside path below the window's directory
  */
final case class StagedFile(path: String, start: Option[Long], inside: String, length: Long, rows: Long)

/** The commit protocol of the tasks that write the files of a batch. They write into a directory of this
  * attempt, under unique names. Files of tasks that failed or were replaced are not committed, and are
  * deleted with the directory.
  *
  * @param directory the attempt's, below `_tailrace/staging`
  */
private[windows] final class StagedFiles(directory: String, batch: Long)
    extends FileCommitProtocol
    with Serializable {

  // On executors.
  @transient private var added: ArrayBuffer[String] = _

  // On the driver.
  @transient private var committed: Seq[(String, Long)] = Nil

  /** Paths below the directory and lengths of all committed files, when the job has ended. */
  def files: Seq[(String, Long)] = committed

  override def setupJob(job: JobContext): Unit = ()
  override def setupTask(task: TaskAttemptContext): Unit = added = new ArrayBuffer[String]

  override def newTaskTempFile(task: TaskAttemptContext, dir: Option[String], spec: FileNameSpec): String = {
    val number = task.getTaskAttemptID.getTaskID.getId
    val name = f"${spec.prefix}part-$number%05d-$batch-${UUID.randomUUID}${spec.suffix}"
    val path = dir.fold(name)(d => s"$d/$name")
    added += path
    s"$directory/$path"
  }

  override def newTaskTempFileAbsPath(task: TaskAttemptContext, dir: String, spec: FileNameSpec): String =
    throw new UnsupportedOperationException(s"a file outside of $directory")

  private def fileSystem(of: JobContext): FileSystem = new Path(directory).getFileSystem(of.getConfiguration)

  override def commitTask(task: TaskAttemptContext): TaskCommitMessage = {
    val files = fileSystem(task)
    new TaskCommitMessage(added.map(p => p -> files.getFileStatus(new Path(directory, p)).getLen).toSeq)
  }

  override def abortTask(task: TaskAttemptContext): Unit =
    added.foreach(path => fileSystem(task).delete(new Path(directory, path), false))

  override def commitJob(job: JobContext, tasks: Seq[TaskCommitMessage]): Unit =
    committed = tasks.flatMap(_.obj.asInstanceOf[Seq[(String, Long)]])

  override def abortJob(job: JobContext): Unit = fileSystem(job).delete(new Path(directory), true): Unit
}

/** Moves the files of a batch from its staging directory to their places, on the driver. A move that was
  * interrupted can be repeated.
  *
  * @param folder  of windows
  * @param staging has a directory for each attempt at a batch
  */
private[windows] final class PlacedFiles(folder: Path, staging: Path, hadoopConf: Configuration) {
  private lazy val fileSystem: FileSystem = folder.getFileSystem(hadoopConf)

  // Directories that are there, unless somebody has deleted them since.
  private val made = mutable.HashSet.empty[Path]

  /** The directory for the files of an attempt at a batch. */
  def newStaging(batch: Long): Path = new Path(staging, s"$batch-${UUID.randomUUID}")

  /** Deletes the files of all attempts. */
  def deleteAll(): Unit = fileSystem.delete(staging, true): Unit

  /** Deletes the files with rows in a window's directory. */
  def deleteRows(directory: Path): Unit =
    each(LandingPaths.withRows(fileSystem, directory))(file => fileSystem.delete(file.getPath, false): Unit)

  /** True if some files of a batch may not be in their places yet. */
  def areStaged(batch: BatchFile): Boolean = fileSystem.exists(stagingOf(batch))

  /** @param again whether some files may be in their places already */
  def place(batch: BatchFile, again: Boolean): Unit = {
    if (made.size > PlacedFiles.MostMade) made.clear()
    val directories = batch.files.map(placeOf(_).getParent).distinct.filterNot(made)
    each(directories)(fileSystem.mkdirs(_): Unit)
    made ++= directories
    each(batch.files)(file => if (!again || !isInPlace(file)) move(batch, file))
    fileSystem.delete(stagingOf(batch), true): Unit
  }

  private def move(batch: BatchFile, file: LandedFile): Unit = {
    val from = stagedOf(batch, file)
    val length = lengthOf(from)
    length.filter(_ != file.length).foreach { found =>
      throw Errors.stateFileCorrupt(from.toString, s"it has $found bytes instead of ${file.length}")
    }
    val moved = length.isDefined && (renamed(batch, file) || {
      // A reader may have deleted the directory, when it was empty.
      fileSystem.mkdirs(placeOf(file).getParent)
      renamed(batch, file)
    })
    if (!moved) check(batch, file)
  }

  private def renamed(batch: BatchFile, file: LandedFile): Boolean =
    try fileSystem.rename(stagedOf(batch, file), placeOf(file))
    catch { case _: FileNotFoundException => false }

  /** Refuses a batch if some of its files are neither in their places nor in staging. */
  def check(batch: BatchFile, files: Seq[LandedFile]): Unit = each(files)(check(batch, _))

  private def check(batch: BatchFile, file: LandedFile): Unit =
    if (!isInPlace(file))
      throw WindowErrors.fileMissing(stagedOf(batch, file).toString, placeOf(file).toString, batch.batch)

  private def each[A](items: Seq[A])(work: A => Unit): Unit =
    SparkState.sideBySide("tailrace-landing", PlacedFiles.Threads, items)(work)

  private def stagingOf(batch: BatchFile): Path = new Path(staging, batch.staging)
  private def stagedOf(batch: BatchFile, file: LandedFile): Path = new Path(stagingOf(batch), file.from)
  private def placeOf(file: LandedFile): Path = new Path(folder, file.to)

  private def isInPlace(file: LandedFile): Boolean = lengthOf(placeOf(file)).contains(file.length)

  private def lengthOf(file: Path): Option[Long] =
    try Some(fileSystem.getFileStatus(file).getLen)
    catch { case _: FileNotFoundException => None }
}

private object PlacedFiles {

  /** They wait for the file system: 2,000 files of two calls of 30 ms each are in their places in a second. */
  private val Threads = 128

  private val MostMade = 10000
}
