package io.tailrace.state

import java.io.{File, IOException}
import java.nio.file.{Files, NoSuchFileException}
import java.util.UUID
import java.util.concurrent.TimeUnit.NANOSECONDS
import java.util.concurrent.{ExecutionException, Future}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.tailrace.{StateStoreId, UnsafeRowPair, WholeStateStore}

import io.tailrace.common.{Errors, OnFailure}

/** One version of a partition's state, becoming the next one. In a batch, an operator adds rows as runs,
  * reads sections, says which rows have expired, and commits. No change is visible before `commit`. `abort`
  * leaves only runs that no manifest names, which maintenance removes.
  *
  * @param compacted a run that replaces several of the base's; held by this store
  * @param loaded    what it took to begin with the base
  */
final class TailraceStateStore private[state] (
    owner: StateOwner,
    base: LoadedState,
    baseCheckpointId: Option[String],
    compacted: Option[Compacted],
    loaded: StateLoad
) extends WholeStateStore {

  private var sections = compacted.fold(base.sections)(_.replaceIn(base.sections))
  private val newRuns = new ArrayBuffer[NewRun]
  private val nextCheckpointId = owner.newCheckpointId()
  private lazy val manifestFile = owner.stateLog.newManifest(version + 1, nextCheckpointId)
  private var expired = base.manifest.expiredThrough
  private var ownTime = base.manifest.rightExpiredThrough
  private var late = base.manifest.lateRows
  private var amends = base.manifest.amendsAfter
  private var counts = base.manifest.balance
  private var toKeep: Option[AnyRef] = None
  private var state: TailraceStateStore.State = TailraceStateStore.Updating
  private var stateBytes = base.manifest.runs.map(_.length).sum
  private var checkpointId: Option[String] = None
  private var dropped = StoreKind.all.map(kind => kind -> base.droppedThrough(kind)).toMap
  private var nextSeq = RowLayout.firstSeq(version + 1)
  private val waitedBefore = base.waitedNanos

  base.acquire()

  /** The cost of loading the base, with the time for which its runs were waited for since then. */
  def load: StateLoad = {
    val waited = NANOSECONDS.toMillis(base.waitedNanos - waitedBefore)
    loaded.copy(millis = loaded.millis + waited)
  }

  /** The number of damaged local files of the partition that were made again from the checkpoint since the last call. */
  def takeReplacedCopies(): Long = owner.takeReplacedCopies()

  override def id: StateStoreId = owner.id
  override def version: Long = base.manifest.version

  /** Results of left rows up to this time (microseconds, included) have been emitted. */
  def expiredThrough: Long = expired

  /** A time that the operator keeps with the version, at first `Long.MinValue`. Rows of stores that expire by it
    * ([[ExpiryTime.Operator]]) have left up to it.
    */
  def operatorTime: Long = ownTime

  /** The times through which rows have left, of both. */
  def expiry: Expiry = Expiry(expired, ownTime)

  /** Batches that have taken late rows, oldest first; the operator keeps them with the version, too. */
  def lateRows: Seq[LateRows] = late

  /** The state can amend emitted left rows after this time; none: it can amend no row. */
  def amendsAfter: Option[Long] = amends

  /** The examples that the partition has emitted, if the rate of negatives follows from them. */
  def balance: Option[BalanceCounts] = counts

  /** Sequence numbers go up over the whole life of the partition: see [[RunKey]]. */
  def newSeq(): Long = {
    nextSeq += 1
    nextSeq - 1
  }

  def sectionsOf(kind: StoreKind): Seq[LiveSection] = sections.filter(_.section.store == kind.name)

  /** Writes the rows of stores, in ascending order of their id, as one run. A large run is copied into the
    * checkpoint while the operator continues, others come into the manifest's file.
    *
    * @param bucketWidth in microseconds; it may change from run to run
    */
  def addRun(bucketWidth: Long, stores: (StoreKind, RowBuffer)*): Seq[LiveSection] =
    addSorted(stores.map { case (kind, rows) => SortedRows.all(kind, rows, bucketWidth) })

  /** Does the same for rows that are sorted already. */
  def addSorted(stores: Seq[SortedRows]): Seq[LiveSection] = {
    requireUpdating()
    if (stores.forall(_.isEmpty)) Nil
    else {
      // Before there is a local file: this may list the checkpoint's directory, and fail.
      val manifest = manifestFile
      val file = owner.localFile(StateFileNames.run(version + 1))
      val rows = write(file, stores)
      val inline = newRuns.iterator.filter(_.isInline).map(_.written.length).sum + file.length
      val isInline = inline <= owner.inlineRunBytes
      val name = if (isInline) StateFileNames.inline(manifest, newRuns.size) else file.getName
      val local = held(name, if (isInline) named(name, file) else file, owner.contentOfNewRuns)
      val run = new NewRun(local, sealedBy(local))
      newRuns += run
      if (!isInline) run.uploadBy(owner)
      val added = live(local, rows)
      sections = sections ++ added
      added
    }
  }

  /** Writes rows, at least one, into a local file that isn't part of the state, for this batch's own use. */
  def scratch(rows: SortedRows): ScratchRun = {
    requireUpdating()
    val file = owner.localFile(s"scratch-${UUID.randomUUID}")
    val written = write(file, Seq(rows))
    val local = held(file.getName, file, LocalContent.Scratch)
    new ScratchRun(live(local, written))
  }

  private def live(local: LocalRun, written: Seq[Section]): Seq[LiveSection] =
    written.map(section => new LiveSection(local, section.copy(schema = owner.shapes.newest), owner.shapes))

  /** The file under the run's name, by which a later owner of the partition finds it. */
  private def named(name: String, file: File): File =
    try Files.move(file.toPath, owner.localFile(name).toPath).toFile
    catch {
      case e: NoSuchFileException if !file.exists => throw WrittenFile.gone(file, e)
      case e: IOException => throw Errors.stateFileUnavailable(file.getPath, "renamed", e)
    }

  private def held(name: String, file: File, content: LocalContent): LocalRun = {
    val local = owner.localRun(name, file, content)
    local.acquire()
    local
  }

  private def sealedBy(local: LocalRun): WrittenFile =
    OnFailure(local.release())(WrittenFile.ofRun(local.file))

  private def write(file: File, stores: Seq[SortedRows]): Seq[Section] =
    try {
      val writer = new RunWriter(file)
      try {
        stores.foreach(_.writeTo(writer))
        writer.finish()
        writer.sections
      } finally writer.close()
    } catch {
      case e: Throwable =>
        file.delete()
        throw e
    }

  /** Says that the results of all rows of `kind` up to `through` have been emitted.
    *
    * @param countBySection the number of these rows in each section
    */
  def markExpired(kind: StoreKind, through: Long, countBySection: LiveSection => Long): Unit = {
    requireUpdating()
    expired = Math.max(expired, through)
    sections = sections.map { live =>
      val more = if (live.section.store == kind.name) countBySection(live) else 0L
      if (more == 0) live
      else live.counting(live.section.copy(expiredRows = live.section.expiredRows + more))
    }
  }

  /** Drops each section of `kind` whose last row isn't after `through`. @return the number of rows dropped */
  def dropThrough(kind: StoreKind, through: Long): Long = {
    requireUpdating()
    dropped = dropped.updated(kind, Math.max(dropped(kind), through))
    val (dead, alive) = sections.partition(s => s.section.store == kind.name && s.section.maxTime <= through)
    sections = alive
    dead.map(_.section.liveRows).sum
  }

  /** Sets the number of rows of each section of `kind` that no longer count. Drops sections without a row that counts. */
  def settle(kind: StoreKind, dead: LiveSection => Long): Unit = {
    requireUpdating()
    sections = sections.flatMap { live =>
      if (live.section.store != kind.name) Some(live)
      else {
        val count = dead(live)
        if (count >= live.section.rows) None
        else if (count == live.section.expiredRows) Some(live)
        else Some(live.counting(live.section.copy(expiredRows = count)))
      }
    }
  }

  /** Drops all sections of a run. */
  def dropRun(run: LocalRun): Unit = {
    requireUpdating()
    sections = sections.filterNot(_.local eq run)
  }

  /** @param time never before [[operatorTime]]: the operator sees to that */
  def setOperatorTime(time: Long): Unit = {
    requireUpdating()
    ownTime = time
  }

  def setLateRows(batches: Seq[LateRows], amendsAfter: Option[Long]): Unit = {
    requireUpdating()
    late = batches
    amends = amendsAfter
  }

  def setBalance(balance: Option[BalanceCounts]): Unit = {
    requireUpdating()
    counts = balance
  }

  /** Takes the value that the operator has kept with the base version. Only one caller gets it. */
  def takeKept(): Option[AnyRef] = base.takeKept()

  /** Keeps a value in memory with the version that `commit` makes, as long as that version. */
  def keep(value: AnyRef): Unit = toKeep = Some(value)

  override def commit(): Long = {
    requireUpdating()
    val alive = sections.groupMap(_.local)(_.section)
    // In the order in which their rows came, so that neighbours are compacted with neighbours.
    val inherited = base.runs.zip(base.manifest.runs)
    val kept = compacted.fold(inherited) { c =>
      val (before, rest) = inherited.span { case (local, _) => !c.replaces(local) }
      before ++ ((c.local -> c.run) +: rest.filterNot { case (local, _) => c.replaces(local) })
    }
    // Also runs without a living section: their upload must end before the batch does.
    val complete = newRuns.toSeq.map(run => run.local -> run.complete())
    val runs = (kept ++ complete).filter { case (local, _) => alive.contains(local) }
    val named = runs.map { case (local, run) => run.copy(sections = alive(local)) }
    val inline = newRuns.iterator.filter(_.isInline).map(run => run.local.name -> run.written).toMap
    val next = Manifest(version + 1, expired, named, ownTime, late, amends, counts)
    val manifest = owner.stateLog.commit(manifestFile, next, inline)
    state = TailraceStateStore.Committed
    checkpointId = nextCheckpointId
    stateBytes = manifest.runs.map(_.length).sum
    val committed = new LoadedState(manifest, runs.map(_._1), checkpointId, dropped, owner.shapes)
    toKeep.foreach(committed.keep)
    try owner.committed(committed)
    finally letGo()
    version + 1
  }

  override def abort(): Unit = if (state == TailraceStateStore.Updating) {
    state = TailraceStateStore.Aborted
    letGo()
  }

  private def letGo(): Unit = {
    newRuns.foreach(_.local.release())
    compacted.foreach(_.local.release())
    base.release()
  }

  override def hasCommitted: Boolean = state == TailraceStateStore.Committed

  /** The number of runs with rows of this version. */
  def files: Int = sections.iterator.map(_.local).toSet.size

  /** Bytes of a store's rows before compression. */
  def bytesOf(kind: StoreKind): Long = sectionsOf(kind).map(_.section.bytes).sum

  override protected def rowCount: Long = sections.map(_.section.liveRows).sum
  override protected def fileBytes: Long = stateBytes
  override protected def committedId: Option[String] = checkpointId
  override protected def baseId: Option[String] = baseCheckpointId
  override protected def storedRows: Iterator[UnsafeRowPair] with AutoCloseable =
    new BufferedRows(sections, expiry)

  private def requireUpdating(): Unit =
    require(state == TailraceStateStore.Updating, s"the store of version $version is $state")

  override protected def refuse(operation: String): Nothing =
    throw Errors.stateOperationUnsupported(operation)
}

object TailraceStateStore {

  private sealed trait State
  private case object Updating extends State
  private case object Committed extends State
  private case object Aborted extends State
}

/** The owner of a partition's state on an executor, as its stores see it. */
private[state] trait StateOwner {
  def id: StateStoreId
  def stateLog: StateLog

  /** The schemas of the operator's rows, in this run of the query. */
  def shapes: RowShapes

  /** Up to this many bytes of a batch's runs come into the manifest's file. */
  def inlineRunBytes: Long

  /** In Spark's checkpoint format 2, the version of each attempt has an id of its own. */
  def newCheckpointId(): Option[String]

  def localFile(name: String): File

  /** The content of local files that the checkpoint doesn't have. */
  def contentOfNewRuns: LocalContent

  def localRun(
      name: String,
      file: File,
      content: LocalContent,
      comingFrom: Option[RunCopy] = None
  ): LocalRun

  /** Begins to copy a run into the checkpoint. The copy holds the run, because the task may end before it. */
  def upload(run: LocalRun, written: WrittenFile): Future[Run]

  /** Takes a version that a store has committed. */
  def committed(next: LoadedState): Unit

  /** The number of damaged local files that were made again since the last call. */
  def takeReplacedCopies(): Long
}

/** A run that a batch has written.
  *
  * {{{
  *   small   comes into the manifest's file, at the end of the batch
  *   large   is copied into the checkpoint while the operator continues
  * }}}
  */
private[state] final class NewRun(val local: LocalRun, val written: WrittenFile) {
  private var upload = Option.empty[Future[Run]]

  /** True if it comes into the manifest's file. */
  def isInline: Boolean = upload.isEmpty

  /** Begins to copy it into the checkpoint. */
  def uploadBy(owner: StateOwner): Unit = upload = Some(owner.upload(local, written))

  /** Waits for the end of the copy, and throws the error that it ended with. */
  def complete(): Run =
    try upload.fold(Run(local.name, written.length, written.crc32c, Nil))(_.get())
    catch { case e: ExecutionException => throw e.getCause }
}

/** Sorted rows in a local file that isn't part of the state. */
final class ScratchRun(val sections: Seq[LiveSection]) extends AutoCloseable {
  override def close(): Unit = sections.head.local.release()
}
