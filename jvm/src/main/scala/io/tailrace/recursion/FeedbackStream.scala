package io.tailrace.recursion

import java.util.{EnumSet, Set => JavaSet}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.connector.catalog.{SupportsRead, TableCapability}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.tailrace.{CancellableFSDataOutputStream, SparkSession, StreamingRun}
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.util.SerializableConfiguration
import org.json4s.jackson.{JsonMethods, Serialization}

import io.tailrace.checkpoint.{BatchFiles, DurableFiles}
import io.tailrace.common.{Errors, ModeErrors}
import io.tailrace.driver.DriverRuns
import io.tailrace.plan.UnnumberedSource

/** The rows that are fed back, as a source of their own query. */
final class FeedbackTable(settings: RecursionSettings, columns: StructType)
    extends UnnumberedSource
    with SupportsRead {
  override def name(): String = HopReport.name(settings)
  override def schema(): StructType = columns
  override def capabilities(): JavaSet[TableCapability] = EnumSet.of(TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new Scan {
      override def readSchema(): StructType = columns
      override def description(): String = s"feedback of the recursion '${settings.name}'"
      override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.UNSUPPORTED

      /** Called in the thread that starts the query. */
      override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream = {
        val session = SparkSession.active
        val run = StreamingRun.current(session)
        val hadoopConf = DriverRuns.hadoopConf(session)
        val directory = FeedbackLog.directory(run.checkpointRoot, settings.name)
        val log = new FeedbackLog(directory, hadoopConf.value.value)
        val retained = session.sessionState.conf.minBatchesToRetain
        new FeedbackStream(settings, columns, run, log, retained, hadoopConf)
      }
    }
}

/** Reads all rows that the last micro-batch has fed back.
  *
  * {{{
  *   batch 7 gives rows, writes tailrace-recursion/<name>/7/
  *   latestOffset -> 7     batch 8 reads 7/, and writes 8/ without rows
  *   latestOffset -> null  there is nothing to do; 7/ stays for another run of 8
  * }}}
  *
  * So do the directories of as many batches before as Spark's logs keep, for a query that is set back to one of them.
  *
  * Spark asks for the latest offset only when the batch before is committed. So that batch's files are
  * complete then, or never, unless somebody else writes files there.
  *
  * @param retained `spark.sql.streaming.minBatchesToRetain`
  */
private[recursion] final class FeedbackStream(
    settings: RecursionSettings,
    columns: StructType,
    run: StreamingRun,
    log: FeedbackLog,
    retained: Int,
    hadoopConf: Broadcast[SerializableConfiguration]
) extends MicroBatchStream
    with SupportsTriggerAvailableNow {
  private val rounds = new RoundsWatch(settings)

  // The rows that the last committed batch has fed back. Spark asks at each poll while nothing arrives.
  @volatile private var known = Option.empty[(Long, Option[FeedbackOffset])]

  /** Nothing is fixed here: `availableNow` ends when no row is fed back any longer. */
  override def prepareForTriggerAvailableNow(): Unit = ()

  /** Spark asks when it has chosen how to trigger batches, before the first one. */
  override def getDefaultReadLimit: ReadLimit = {
    if (run.tracksProgressAsynchronously) throw ModeErrors.asyncProgress("tailrace.recursively")
    run.triggerAtOnceIf(() => pending.isDefined)
    ReadLimit.allAvailable()
  }

  /** The rows that the last micro-batch has fed back, if any. */
  private def pending: Option[FeedbackOffset] = run.lastCommittedBatch.flatMap { batch =>
    if (!known.exists(_._1 == batch)) known = Some(batch -> fedBackBy(batch))
    known.get._2
  }

  private def fedBackBy(batch: Long): Option[FeedbackOffset] = {
    val fedBack = log.fedBack(batch)
    // The oldest batch that Spark's logs keep may run again, and reads the rows that the previous one has fed back.
    log.deleteBefore(batch - Math.max(1, retained))
    if (fedBack.files.isEmpty) rounds.rest() else rounds.again()
    Option.when(fedBack.files.nonEmpty)(FeedbackOffset(batch, fedBack.attempt))
  }

  override def initialOffset(): Offset = FeedbackOffset.Start

  /** Null if there are no rows: an offset would make Spark run an empty batch. */
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = pending.orNull

  override def latestOffset(): Offset =
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is the one to call")

  override def deserializeOffset(json: String): Offset = FeedbackOffset.fromJson(json)

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
    (start, end) match {
      case (FeedbackOffset(from, _), FeedbackOffset(batch, attempt)) if batch > from =>
        FeedbackSplits.group(log.files(batch, attempt)).map(FeedbackPartition).toArray[InputPartition]
      case _ => Array.empty
    }

  override def createReaderFactory(): PartitionReaderFactory = FeedbackReaderFactory(hadoopConf, columns)

  override def commit(end: Offset): Unit = ()
  override def stop(): Unit = ()
}

/** @param batch   the batch whose rows have been read; -1: none
  * @param attempt the run of that batch
  */
private[recursion] final case class FeedbackOffset(batch: Long, attempt: FeedbackAttempt) extends Offset {
  override def json(): String =
    Serialization.write(Map("batch" -> batch.toString, "run" -> attempt.toString))(FeedbackOffset.Formats)
}

private[recursion] object FeedbackOffset {
  private val Formats = org.json4s.DefaultFormats

  val Start: FeedbackOffset = FeedbackOffset(-1, FeedbackAttempt(0, "0" * 32))

  def fromJson(json: String): FeedbackOffset = {
    val fields = JsonMethods.parse(json).values match {
      case map: Map[_, _] => map.map { case (key, value) => key.toString -> value.toString }
      case _ => Map.empty[String, String]
    }
    val offset = for {
      batch <- fields.get("batch").flatMap(_.toLongOption)
      attempt <- fields.get("run").flatMap(FeedbackAttempt.parse)
    } yield FeedbackOffset(batch, attempt)
    offset.getOrElse(throw Errors.stateFileCorrupt("of the offset log", s"no offset of a recursion: $json"))
  }
}

private[recursion] final case class FeedbackPartition(files: Seq[String]) extends InputPartition

private[recursion] final case class FeedbackReaderFactory(
    hadoopConf: Broadcast[SerializableConfiguration],
    columns: StructType
) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new FeedbackReader(partition.asInstanceOf[FeedbackPartition].files, hadoopConf.value.value, columns)
}

/** Reads the rows of some files, one file after the other. */
private[recursion] final class FeedbackReader(
    files: Seq[String],
    hadoopConf: Configuration,
    columns: StructType
) extends PartitionReader[InternalRow] {
  private val waiting = files.iterator
  private val row = new UnsafeRow(columns.length)
  private var reader: FeedbackFile.Reader = _

  override def next(): Boolean = {
    while (true) {
      if (reader == null) {
        if (!waiting.hasNext) return false
        reader = open(waiting.next())
      }
      val length = reader.next()
      if (length >= 0) {
        row.pointTo(reader.bytes, length)
        return true
      }
      close()
    }
    false
  }

  private def open(file: String): FeedbackFile.Reader = {
    val path = new Path(file)
    val neededBy = s"the micro-batch after batch ${path.getParent.getName}"
    val in = DurableFiles.in(path, hadoopConf).openStream(path, neededBy)
    new FeedbackFile.Reader(in, file, FeedbackLog.place(path), columns.json)
  }

  override def get(): InternalRow = row

  override def close(): Unit = if (reader != null) {
    reader.close()
    reader = null
  }
}

/** The rows that a batch has fed back, from outside of the query.
  *
  * @param columns of its rows: the user's, then the recursion's own
  * @param files   with rows, those of a task together
  */
private[tailrace] final case class KeptRounds(columns: StructType, files: Seq[Seq[String]]) {

  /** The columns without the recursion's own. */
  def users: StructType = StructType(columns.filterNot(column => RoundColumns.Own(column.name)))

  /** The place of the depth among the columns. */
  def depth: Option[Int] = Some(columns.indexWhere(_.name == RoundColumns.Depth)).filter(_ >= 0)

  def reader(files: Seq[String], conf: SerializableConfiguration): PartitionReader[InternalRow] =
    new FeedbackReader(files, conf.value, columns)
}

private[tailrace] object KeptRounds {

  /** @param directory of a recursion
    * @return without columns if nothing is fed back: they are only in files with rows
    * @throws io.tailrace.common.TailraceStateException TAILRACE_RECURSION_FEEDBACK_INCOMPLETE
    */
  def of(directory: Path, batch: Long, conf: Configuration): KeptRounds = {
    val files = new FeedbackLog(directory, conf).fedBack(batch).files
    val columns = files.headOption.fold(new StructType()) { case (file, _) =>
      columnsOf(new Path(file), batch, conf)
    }
    KeptRounds(columns, FeedbackSplits.group(files))
  }

  private def columnsOf(file: Path, batch: Long, conf: Configuration): StructType =
    DurableFiles.in(file, conf).stream(file, s"the micro-batch after batch $batch") { in =>
      DataType
        .fromJson(FeedbackFile.columns(in, file.toString, FeedbackLog.place(file)))
        .asInstanceOf[StructType]
    }
}

/** The rows that are fed back, in the query's checkpoint, until the next micro-batch reads them:
  *
  * {{{
  *   <checkpoint>/tailrace-recursion/<name>/<batch>/<run>-<id>-<task>-of-<tasks>.fed
  * }}}
  *
  * A task writes its file before it ends, so before Spark can commit the batch. The files are deleted when no
  * batch of Spark's logs can read them: until then the query may be rolled back to it.
  */
private[tailrace] final class FeedbackLog(directory: Path, hadoopConf: Configuration) {
  private val batches = new BatchFiles(directory, hadoopConf, "")

  /** The number of the next run of a batch. */
  def nextRun(batch: Long): Int = FeedbackName.nextRun(listed(batch).map(_._1))

  /** Notes that a task, or a run without tasks, has fed nothing back. */
  def writeEmpty(batch: Long, name: FeedbackName): Unit = {
    batches.files.write(file(batch, name.copy(content = FeedbackContent.NoRows)))(_ => ())
    batches.files.deleteAll(Seq(file(batch, name)))
  }

  /** Begins a task's file, which exists only when it is closed. */
  def create(batch: Long, name: FeedbackName): CancellableFSDataOutputStream =
    batches.files.begin(file(batch, name), overwrite = true)

  /** Ends a task's file. An earlier attempt may have had no rows: random functions give others. */
  def close(file: CancellableFSDataOutputStream, batch: Long, name: FeedbackName): Unit = {
    file.close()
    batches.files.deleteAll(Seq(this.file(batch, name.copy(content = FeedbackContent.NoRows))))
  }

  def file(batch: Long, name: FeedbackName): Path = new Path(batches.path(batch), name.toString)

  /** The newest complete run of a batch; none if no run is complete. */
  def complete(batch: Long): Option[FedBack] = {
    val found = listed(batch)
    FeedbackName.complete(found.map(_._1)).map(attempt => FedBack(attempt, withRows(batch, attempt, found)))
  }

  /** The newest complete run of a batch that has ended.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_RECURSION_FEEDBACK_INCOMPLETE
    */
  def fedBack(batch: Long): FedBack = complete(batch).getOrElse(throw incomplete(batch))

  /** The files with rows of one run of a batch, and their lengths.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT if a task has a file with
    *                                                   rows and one without: an attempt died between them
    */
  def files(batch: Long, attempt: FeedbackAttempt): Seq[(String, Long)] =
    withRows(batch, attempt, listed(batch))

  private def withRows(batch: Long, attempt: FeedbackAttempt, all: Seq[(FeedbackName, FileStatus)]) = {
    val found = all.filter(_._1.attempt == attempt)
    val byTask = found.groupBy(_._1.task)
    byTask.values.find(_.size > 1).foreach { several =>
      val names = several.map(_._2.getPath).sortBy(_.getName)
      throw Errors.stateFileCorrupt(names.head.toString, s"its task has written ${names.last.getName}, too")
    }
    if (byTask.size < found.headOption.fold(1)(_._1.tasks)) throw incomplete(batch)
    found.sortBy(_._1.task).collect {
      case (name, status) if name.hasRows(status.getLen) => status.getPath.toString -> status.getLen
    }
  }

  private def incomplete(batch: Long) =
    RecursionErrors.feedbackIncomplete(batches.path(batch).toString, batch)

  /** Deletes the files of the batches before this one. */
  def deleteBefore(batch: Long): Unit = batches.deleteBefore(batch)

  private def listed(batch: Long): Seq[(FeedbackName, FileStatus)] =
    batches.files
      .list(batches.path(batch))
      .flatMap(status => FeedbackName.parse(status.getPath.getName).map(_ -> status))
}

private[tailrace] object FeedbackLog {
  val Root = "tailrace-recursion"

  /** The place that a file contains. It stays the same when a checkpoint is moved. */
  def place(file: Path): String = {
    val batch = file.getParent
    s"${batch.getParent.getName}/${batch.getName}/${file.getName}"
  }

  def directory(checkpointRoot: String, name: String): Path = new Path(new Path(checkpointRoot, Root), name)

  /** Refuses a query whose recursions aren't those of its checkpoint. Spark only counts the sources, and a
    * recursion under a new name would lose the rows in flight under the old one.
    *
    * @param names the query's recursions that keep a log
    * @throws io.tailrace.common.TailraceAnalysisException TAILRACE_RECURSION_CHECKPOINT
    */
  def check(checkpoint: Path, hadoopConf: Configuration, names: Seq[String]): Unit = {
    val files = DurableFiles.in(checkpoint, hadoopConf)
    // Before the first commit any of the recursions may have a log.
    if (new BatchFiles(new Path(checkpoint, "commits"), files, Seq("")).list().nonEmpty) {
      // A directory without a batch may be one of the query's that has lost its files.
      val found = BatchFiles.directories(new Path(checkpoint, Root), files, names.toSet, "")
      if (found.toSet != names.toSet) {
        val missing = names.diff(found).map(directory(checkpoint.toString, _).toString)
        throw RecursionErrors.checkpoint(checkpoint.toString, found, names, missing)
      }
    }
  }
}

/** @param files the files with rows, and their lengths */
private[recursion] final case class FedBack(attempt: FeedbackAttempt, files: Seq[(String, Long)])
