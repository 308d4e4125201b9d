package io.tailrace.windows

import scala.collection.immutable.TreeMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.tailrace.common.{Durations, Errors}

/** A folder of windows, on the driver. Each row of a batch comes into its window's directory once, and a window's
  * `_SUCCESS` comes when nothing will be added to that directory any more:
  *
  * {{{
  *   tasks ──> _tailrace/staging/7-<attempt>/...      hidden: an attempt that dies leaves nothing else
  *     │
  *   land:  7.batch, in one step: which file goes where, and which rows are late
  *     │    each file to its place; staging is deleted when all are there
  *     │
  *   close: 3.closed, in one step: which windows, with their reports
  *          <window>/_SUCCESS, one after the other
  * }}}
  *
  * Who opens the folder again does the rest of the newest of either, whatever the last one had done of it.
  * Late or not is decided with the batch's file, while no window can close.
  *
  * @param lock one for all that ever open the folder in this JVM; the last one owns it
  */
final class LandingFolder private[windows] (
    path: Path,
    settings: LandingSettings,
    hadoopConf: Configuration,
    lock: WrittenFolders.Slot
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

  // Between the file of a batch and the last file in its place no window may close.
  private var landing = false

  /** Finds out what has happened in the folder, and does what was left undone. */
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
    finishMarking()
    val known = newest.toSeq.flatMap(_.open).map(w => w.start -> w.rows)
    val none = windows.copy(through = closed.map(_._2.through))
    windows = none.add(known.filterNot(w => none.isClosed(w._1)))
    late = TreeMap.from(newest.toSeq.flatMap(_.late).map(w => w.start -> w.rows))
  }

  /** A closing whose file is gone would open its windows again. */
  private def checkClosed(closed: Option[(Long, ClosedFile)]): Unit = newest.foreach { batch =>
    def missing(number: Long) =
      Errors.stateFileMissing(log.closedFile(number).toString, s"batch ${batch.batch}")
    val known = closed.fold(0L)(_._1 + 1)
    batch.closings.filter(_ > known).foreach(made => throw missing(made - 1))
    // The first closing after that batch: nobody else has taken note of it.
    val through = closed.map(_._2.through)
    val open = batch.open.map(_.start).filterNot(windows.copy(through = through).isClosed)
    if (open.exists(log.marked(_).isDefined)) throw missing(known)
  }

  private def settingsOf(queryId: String, since: Option[Long]): FolderFile =
    FolderFile(queryId, settings.windows.width, settings.windows.offset, settings.into, since)

  private def checkSettings(folder: FolderFile): Unit = {
    val wanted = settingsOf(folder.queryId, folder.since)
    if (!folder.hasWindowsOf(wanted)) {
      def told(f: FolderFile) =
        s"windows of ${Durations.text(f.width)} from ${Durations.text(f.offset)} on, named ${f.into}"
      throw WindowErrors.folder(path.toString, s"it has ${told(folder)}, and not ${told(wanted)}")
    }
  }

  /** Makes the folder a query's.
    *
    * @param batch that lands next
    */
  def begin(queryId: String, batch: Long): Unit = owned {
    owner match {
      case Some(folder) if folder.queryId == queryId =>
      case Some(folder) =>
        throw WindowErrors.folder(
          path.toString,
          s"the query ${folder.queryId} writes it, and this one is $queryId"
        )
      case None if batch > 0 && !log.isEmpty =>
        throw Errors.stateFileMissing(paths.settings.toString, s"batch $batch")
      // Windows would be complete here that have rows elsewhere, and never be complete there.
      case None if batch > 0 =>
        val reason = s"the micro-batches of this query before $batch have landed elsewhere"
        throw WindowErrors.folder(path.toString, reason)
      case None =>
        val folder = settingsOf(queryId, Some(batch))
        log.begin(folder)
        owner = Some(folder)
    }
  }

  /** What a batch has landed, if it has: it runs again then, after a failure, and its rows are there.
    *
    * @param offsets what the batch is made of, in short
    */
  def landed(batch: Long, offsets: String): Option[BatchFile] = owned {
    checkNewest(batch)
    newest.filter(_.batch >= batch).map { known =>
      if (known.batch != batch || known.offsets != offsets)
        throw WindowErrors.rolledBack(path.toString, batch, known.batch)
      // Those of closed windows may be gone: somebody else has them now.
      placing.check(known, known.files.filter(file => !file.late && file.start.exists(!windows.isClosed(_))))
      known
    }
  }

  /** The batch before has left a file, if it has landed here and wasn't of an earlier release. */
  private def checkNewest(batch: Long): Unit = {
    val left = newest.fold(owner.flatMap(_.since))(file => file.closings.map(_ => file.batch + 1))
    if (left.exists(_ < batch)) {
      // A batch's file is deleted when the next one's is there: with an older one the newest was never here.
      newest.foreach(last => throw WindowErrors.left(path.toString, batch, last.batch))
      throw Errors.stateFileMissing(log.batchFile(batch - 1).toString, s"batch $batch")
    }
  }

  /** An empty place for the files of an attempt at a batch. */
  def newStaging(batch: Long): Path = placing.newStaging(batch)

  /** Puts the files of a batch in their places. */
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
      open.rows.toSeq.map(w => WindowRows(w._1, w._2)),
      lateNow.toSeq.map(w => WindowRows(w._1, w._2)),
      Some(closings)
    )
    landing = true
    log.write(file)
    placing.place(file, again = false)
    newest.foreach(before => log.deleteBatch(before.batch))
    newest = Some(file)
    windows = open
    late = lateNow
    landing = false
    file
  }

  private def placed(file: StagedFile): LandedFile = {
    val late = file.start.exists(windows.isClosed)
    val directory = file.start match {
      case None => LandingPaths.Untimed
      case Some(start) =>
        (if (late) s"${LandingPaths.Late}/" else "") + LandingPaths.window(settings.into, start)
    }
    LandedFile(file.path, s"$directory/${file.inside}", file.length, file.rows, file.start, late)
  }

  private def countLate(files: Seq[LandedFile]): TreeMap[Long, Long] = {
    val all = files.filter(_.late).foldLeft(late) { (counts, file) =>
      counts.updatedWith(file.start.get)(before => Some(before.getOrElse(0L) + file.rows))
    }
    all.drop(all.size - MostLate)
  }

  /** Whether a low watermark closes windows. */
  def closes(low: Long): Boolean = owned(!landing && (unmarked.nonEmpty || windows.close(low).isDefined))

  /** Closes the windows that end at a low watermark or before.
    *
    * @param report of windows, by start, and their rows
    * @return reports of those that have closed now
    */
  def close(low: Long, report: Seq[(Long, Long)] => Seq[WindowReport]): Seq[WindowReport] = owned {
    if (landing) Nil
    else {
      finishMarking()
      windows.close(low).toSeq.flatMap { closing =>
        val reports = report(closing.closed)
        val marks = reports.map(r => ClosedWindow(r.start, WindowReport.encode(r)))
        log.write(closings, ClosedFile(closing.left.through.get, marks))
        unmarked = marks
        windows = closing.left
        closings += 1
        finishMarking()
        if (closings > 1) log.deleteClosed(closings - 2)
        reports
      }
    }
  }

  private def finishMarking(): Unit = {
    unmarked.foreach(log.mark)
    unmarked = Nil
  }

  /** Reports of the windows that closed last, and of those that the newest batch had late rows for: who is told of them
    * may not have been before the query died.
    */
  def latest: Seq[(WindowReport, Long)] = owned {
    val closed = log.newestClosed().toSeq.flatMap(_._2.windows).map(_.start)
    val withLate = newest.toSeq.flatMap(_.files).filter(_.late).flatMap(_.start)
    (closed ++ withLate).distinct.sorted.map(start => reportOf(start) -> late.getOrElse(start, 0L))
  }

  /** Of windows that rows have come late for: their reports, and how many rows in all.
    *
    * @param batch that brought some
    */
  def lateIn(batch: BatchFile): Seq[(WindowReport, Long)] = owned {
    batch.files.filter(_.late).flatMap(_.start).distinct.sorted.map { start =>
      reportOf(start) -> late.getOrElse(start, 0L)
    }
  }

  /** A window that ended before the first row had landed has none: nobody was expected in it. */
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

  /** Windows whose late rows are counted: as many as a watermark server keeps. The rows themselves are all there. */
  private val MostLate = 1000
}
