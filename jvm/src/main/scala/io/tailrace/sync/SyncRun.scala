package io.tailrace.sync

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.tailrace._
import org.apache.spark.util.{AccumulatorV2, CollectionAccumulator}

import io.tailrace.checkpoint.BatchFiles
import io.tailrace.common.{Policy, Side}
import io.tailrace.driver._
import io.tailrace.explain.SyncSideFacts
import io.tailrace.join.IdleTimeout

/** The progress of one synced join in one start of its query, on the driver.
  *
  * {{{
  *   times(7) ── tasks of batch 7: read(7), held(7) ──> end(7): fold, write 7.progress ── commit log 7
  * }}}
  *
  * The first call that names a batch begins it ([[BatchSequence]]).
  *
  * @param clock       of the start
  * @param register    registers an accumulator with Spark
  * @param retain      batches that the query must be able to go back by
  * @param endsByItself whether the start reads what is there, and ends
  * @param flushes     the time up to which a batch flushes left rows, by `idle_timeout`: the same whenever it runs
  */
private[sync] final class SyncRun(
    settings: SyncSettings,
    log: SyncLog,
    clock: RunClock,
    register: AccumulatorV2[_, _] => Unit,
    retain: Int,
    val endsByItself: Boolean = false,
    flushes: Long => Option[Long] = _ => None
) {
  private val partitions = new SyncPartitions(settings)
  private val inputs = new InputWatermarks
  private val notices = new SyncNotices(settings, partitions)

  private val batches = new BatchSequence[SyncRun.Batch](begin)
  private var last = SyncRun.Ended(0L, SyncReport(partitions.times, 0, 0, 0, Nil, Nil))
  private var heldBack = Map.empty[Side, Set[String]].withDefaultValue(Set.empty)

  /** The first batch of a start begins with the progress in the checkpoint. */
  private def begin(number: Long, before: Option[SyncRun.Batch]): SyncRun.Batch = {
    val timesBefore = before.fold(load(number))(_.times) // loads the partitions, too
    val read = partitions.times
    // A start without the option runs the first batch again as an earlier one has.
    if (before.isEmpty || settings.idleTimeoutMs.nonEmpty) flushes(number).foreach(partitions.flush)
    new SyncRun.Batch(partitions.times, timesBefore, read, clock.ms)
  }

  private def load(number: Long): SyncTimes = {
    log.load(number).foreach(partitions.restore)
    val before = log.times(number - 1).getOrElse(SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown))
    flushedBefore(number).fold(before)(through => before.max(SyncRules.flushedThrough(through, settings)))
  }

  private def flushedBefore(number: Long): Option[Long] = Option(number - 1).filter(_ >= 0).flatMap(flushes)

  /** The times that a batch is judged by. They are the same whenever the batch runs. */
  def times(number: Long): SyncTimes = synchronized(batches.at(number).times)

  /** The times by which the batch releases rows without `idle_timeout`. */
  def timesByProgress(number: Long): SyncTimes = synchronized(batches.at(number).byProgress)

  /** The times of the batch before, unknown where the checkpoint doesn't have them: a row that is emitted in
    * this batch or later was not released by then.
    */
  def timesBefore(number: Long): SyncTimes = synchronized(batches.at(number).timesBefore)

  /** The times that the batch after the last one that has ended will be judged by. */
  def next: SyncTimes = synchronized(partitions.times)

  /** Receives the numbers of rows that the state partitions of a batch hold. */
  def held(number: Long): CollectionAccumulator[SyncHeld] = synchronized {
    val begun = batches.at(number)
    val accumulator = new CollectionAccumulator[SyncHeld]
    register(accumulator)
    begun.held ::= accumulator
    accumulator
  }

  /** The values that the tasks of a side begin a micro-batch with. */
  def read(side: Side, number: Long, clockMs: Long): SideTasks = synchronized {
    val begun = batches.at(number)
    val accumulator = new PartitionAccumulator[TaskRead]
    register(accumulator)
    begun.reads ::= side -> accumulator
    SideTasks(
      side,
      partitions.side(side).partitions.map(p => p.name -> p.latest).toMap,
      settings.syncDelay,
      partitions.lateBefore(side),
      partitions.missedBefore(side),
      settings.believedThrough(clockMs),
      settings.onFuture,
      accumulator
    )
  }

  /** The rows of a side that the next batch may read: as many as may still be held, and always a tenth of those
    * that may be, because the partition that is waited for must advance. The first batch of a start doesn't know
    * how many are held.
    */
  def room(side: Side): Option[Long] = synchronized {
    settings.maxBuffered.map { most =>
      val held =
        if (batches.last.isEmpty) most else side.of(last.report.bufferedLeft, last.report.bufferedRight)
      Math.max(Math.max(1L, most / 10), most - held)
    }
  }

  /** The partitions of a side that the next batch is not to read, because more rows are held than the user
    * wants. The first batch of a start reads of all: it doesn't know how many are held. A start that ends by
    * itself does too, for it would end before the records that it holds back.
    *
    * @param allOrNone whether the source can only be held back as a whole
    */
  def holdBack(side: Side, allOrNone: Boolean): Set[String] = synchronized {
    def isTooMany(held: Long) =
      !endsByItself && batches.last.nonEmpty && settings.maxBuffered.exists(_ < held)
    val names = side match {
      case Side.Left if isTooMany(last.report.bufferedLeft) =>
        HoldBack.left(partitions.left.counted, partitions.times.release)
      case Side.Right if isTooMany(last.report.bufferedRight) =>
        val leftLow = Option.when(!isTooMany(last.report.bufferedLeft))(partitions.left.low)
        HoldBack.right(partitions.right.counted, leftLow)
      case _ => Set.empty[String]
    }
    val held = if (allOrNone && names.size < partitions.side(side).counted.size) Set.empty[String] else names
    heldBack += side -> held
    held
  }

  /** True if a batch without data is needed to find out that a partition has stalled: while all others are
    * held back, none has data. A join that only waits tells of a stall once.
    */
  def needsBatch: Boolean = synchronized {
    val acts = Side.values.exists(settings.onStallOf(_) != Policy.Pause)
    (acts || !notices.hasWarned) && heldBack.values.exists(_.nonEmpty) &&
    clock.ms - last.atMs >= partitions.mostIdlePerBatchMs
  }

  /** Folds a batch whose tasks have ended, and writes the times of the next batch into the checkpoint.
    *
    * @param sources what the sources of a side have
    * @throws io.tailrace.common.TailraceStateException TAILRACE_SYNC_STALLED
    */
  def end(number: Long, sources: Side => SideSource): Unit = synchronized {
    batches.end(number) { ending =>
      val read = Side.values.map(side => side -> ending.read(side)).toMap
      def side(side: Side) = sideBatch(side, read(side), sources(side))
      notices.around(partitions.advance(side(Side.Left), side(Side.Right), ending.askedMs))
      log.write(number, partitions.file, number - retain)
      last = SyncRun.Ended(clock.ms, SyncReport.of(partitions, read, ending.heldRows))
    }
  }

  private def sideBatch(side: Side, read: Seq[PartitionRead], source: SideSource): SideBatch = {
    val listed = source.listed.map(_.map { partition =>
      // All that it has may have been read before it was held back.
      val waits = heldBack(side)(partition.name) && !partition.unread.contains(0L)
      partition.copy(isHeldBack = waits)
    })
    SideBatch(read, listed, source.hasUnread, if (source.hasUnread) heldBack(side) else Set.empty)
  }

  /** The watermarks of the query's inputs, in milliseconds, if all have one. */
  def watermark(seen: Map[UUID, Option[Long]]): Option[Long] = synchronized {
    val all = inputs.after(seen)
    if (all.isEmpty || all.exists(_.isEmpty)) None else all.flatten.minOption
  }

  /** The partitions that hold back its rows, after the end of a batch. */
  def sides: Seq[SyncSideFacts] = synchronized(SyncWaits.sides(settings, partitions))

  /** For the query's progress, after the end of a batch. */
  def metrics: Row = synchronized(last.report.row)
}

private[sync] object SyncRun {
  private val runs = new RunState[SyncRun]

  /** The join of that name in the start of a query that is planned or executed in this thread. */
  def of(session: SparkSession, settings: SyncSettings): SyncRun =
    runs.of(session, settings.name)(open(session, settings, StreamingRun.current(session)))

  /** The join's name in the notes of a batch that flushes. */
  def work(settings: SyncSettings): String = s"tailraceSyncJoin.${settings.name}"

  /** The same in the session of the thread. */
  def current(settings: SyncSettings): SyncRun =
    of(SparkSession.active, settings)

  private def open(session: SparkSession, settings: SyncSettings, run: StreamingRun): SyncRun = {
    settings.unlimited.foreach { case (side, source) => SyncNotices.unlimited(settings.name, side, source) }
    new SyncRun(
      settings,
      new SyncLog(
        SyncLog.directory(run.checkpointRoot, settings.name),
        session.sessionState.newHadoopConf(),
        () => run.logicalPlan.collect { case side: SyncProgress => side.settings.name }.toSet
      ),
      run.clock,
      session.sparkContext.register(_),
      session.sessionState.conf.minBatchesToRetain,
      run.endsByItself,
      IdleTimeout.noted(session, work(settings), _)
    )
  }

  /** A batch that has begun. It has several accumulators of a kind if a sink runs its tasks several times. */
  private final class Batch(
      val times: SyncTimes,
      val timesBefore: SyncTimes,
      val byProgress: SyncTimes,
      val askedMs: Long
  ) {
    var reads = List.empty[(Side, PartitionAccumulator[TaskRead])]
    var held = List.empty[CollectionAccumulator[SyncHeld]]

    def read(side: Side): Seq[PartitionRead] =
      SyncReads.of(reads.reverse.collect { case (`side`, told) => told })
    def heldRows: Seq[SyncHeld] = SyncReads.held(held.reverse)
  }

  /** The report of the last micro-batch that has ended, and when it ended. */
  private final case class Ended(atMs: Long, report: SyncReport)
}

/** Chooses the partitions that aren't read while too many rows are held: their rows would be held too. All
  * times are microseconds.
  *
  * {{{
  *   too many right rows  right 0 12:07   1 12:05   2 12:09   ->   0 and 2 are held back, they wait for 1
  *   too many left rows   release 12:04, left 0 12:06   1 12:03   ->   0 is held back: its rows would wait
  * }}}
  *
  * The slowest right partition is always read: otherwise no left row would ever be released.
  */
private[sync] object HoldBack {

  /** @param latest  how far each partition has been read
    * @param release left rows before it are released
    */
  def left(latest: Map[String, Long], release: Long): Set[String] =
    names(latest)(_ >= release)

  /** @param leftLow how far the slowest left partition has been read: right rows after this time wait for it;
    *                none: it is held back itself, and a wait for it would never end
    */
  def right(latest: Map[String, Long], leftLow: Option[Long]): Set[String] =
    if (latest.isEmpty) Set.empty
    else {
      val slowest = latest.values.min
      if (slowest != SyncTimes.Unknown && leftLow.exists(slowest > _)) latest.keySet
      else names(latest)(_ > slowest)
    }

  private def names(latest: Map[String, Long])(isHeld: Long => Boolean): Set[String] =
    latest.collect { case (name, time) if time != SyncTimes.Unknown && isHeld(time) => name }.toSet
}

/** The values with which the tasks of a side begin a batch.
  *
  * @param latest       the greatest time of each known partition
  * @param lateBefore   rows before this time are late
  * @param missedBefore rows before this time may have come after their match was decided
  * @param believed     the last event time that isn't too far ahead of the clock
  * @param read         takes what the tasks have read
  */
private[sync] final case class SideTasks(
    side: Side,
    latest: Map[String, Long],
    syncDelay: Long,
    lateBefore: Long,
    missedBefore: Long,
    believed: Long,
    onFuture: Policy,
    read: PartitionAccumulator[TaskRead]
)

/** The part of a side that one task has read. Of two runs of a task, the one with fewer rows stopped sooner.
  *
  * @param rows with and without a time
  */
private[sync] final case class TaskRead(rows: Long, partitions: Seq[PartitionRead])
    extends PartitionValue[TaskRead] {
  override def max(other: TaskRead): TaskRead = if (other.rows > rows) other else this
}

/** Sums up what the tasks of a batch have told the driver. A sink may run a batch's tasks several times. */
private[sync] object SyncReads {

  /** If several tasks have read one partition, the one that has read the most counts. */
  def of(told: Seq[PartitionAccumulator[TaskRead]]): Seq[PartitionRead] =
    told
      .flatMap(_.value)
      .groupMapReduce(_._1)(_._2)(_ max _)
      .values
      .toSeq
      .flatMap(_.partitions)
      .groupMapReduce(_.name)(identity)(plus)
      .values
      .toSeq
      .sortBy(_.name)

  /** A partition may be read by several tasks. */
  private def plus(one: PartitionRead, other: PartitionRead): PartitionRead =
    PartitionRead(
      one.name,
      Math.max(one.latest, other.latest),
      one.rows + other.rows,
      one.jumps + other.jumps,
      one.late + other.late,
      one.future + other.future,
      one.formerly
    )

  /** A state partition tells what it holds when its version is committed: the last one told exists. */
  def held(told: Seq[CollectionAccumulator[SyncHeld]]): Seq[SyncHeld] =
    told.flatMap(_.value.asScala).map(held => held.partition -> held).toMap.values.toSeq
}

/** The progress of one synced join in the query's checkpoint: the file `<batch>.progress` has all partitions
  * of both sides after the batch.
  *
  * The driver writes the file when the batch's tasks have ended, before Spark commits the batch. A batch that
  * runs again begins with the file of the batch before it, and replaces its own.
  *
  * @param inUse names of all synced joins of the query
  */
private[tailrace] final class SyncLog(
    directory: Path,
    hadoopConf: Configuration,
    inUse: () => Set[String] = () => Set.empty
) extends Logging {
  private val batches = new BatchFiles(directory, hadoopConf, ".progress")
  private var isPurged = false

  /** The progress that `batch` begins with.
    *
    * @return none if the join is new in the query
    * @throws io.tailrace.common.TailraceStateException TAILRACE_SYNC_NAME_CHANGED
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_...
    */
  def load(batch: Long): Option[SyncFile] =
    if (batches.list().exists(_.number < batch)) {
      Some(decode(batch - 1, batches.files.read(batches.path(batch - 1), neededBy = s"batch $batch")))
    } else {
      if (batch > 0) {
        // One of the other directories may be this join's under a former name, unless another join of the
        // query uses it.
        val orphans = others().filterNot(inUse())
        if (orphans.nonEmpty) throw SyncErrors.nameChanged(directory.getName, orphans)
        logWarning(
          s"TAILRACE_SYNC_BEGINS: no progress of partitions in $directory before batch $batch: " +
            "it counts from here"
        )
      }
      None
    }

  /** The progress after a batch, from outside of the query. */
  def read(batch: Long): SyncFile = {
    val path = batches.path(batch)
    decode(batch, batches.files.read(path, neededBy = s"batch ${batch + 1}"))
  }

  /** The progress after a batch; none: its file isn't there. */
  def after(batch: Long): Option[SyncFile] = batches.files.find(batches.path(batch)).map(decode(batch, _))

  /** The times that `batch` was judged by; none: the file is gone, or never was. */
  def times(batch: Long): Option[SyncTimes] =
    after(batch - 1).map(_.times)

  /** Writes the progress after `batch`, and deletes files that a start from `retainFrom` on doesn't need. */
  def write(batch: Long, progress: SyncFile, retainFrom: Long): Unit = {
    batches.write(batch)(SyncFile.encode(progress, batches.place(batch.toString)))
    // A batch continues from the file of the batch before it.
    val needed = retainFrom - 1
    if (isPurged) {
      if (needed > 0) batches.files.deleteAll(Seq(batches.path(needed - 1)))
    } else {
      batches.deleteBefore(needed)
      isPurged = true
    }
  }

  private def decode(batch: Long, bytes: Array[Byte]): SyncFile =
    SyncFile.decode(bytes, batches.path(batch).toString, batches.place(batch.toString))

  /** Names of other joins whose progress is in the checkpoint. */
  private def others(): Seq[String] =
    batches.files
      .list(directory.getParent)
      .filter(_.isDirectory)
      .map(_.getPath.getName)
      .filter(_ != directory.getName)
      .sorted
}

private[tailrace] object SyncLog {

  /** The parent of the directories of all synced joins, below the checkpoint. */
  val Root = "tailrace-sync"

  def directory(checkpoint: String, name: String): Path = new Path(new Path(checkpoint, Root), name)
}
