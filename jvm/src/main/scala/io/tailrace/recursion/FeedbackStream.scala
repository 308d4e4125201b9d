package io.tailrace.recursion

import java.util.{EnumSet, Set => JavaSet}

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.connector.read.{
  InputPartition,
  PartitionReader,
  PartitionReaderFactory,
  Scan,
  ScanBuilder
}
import org.apache.spark.sql.tailrace.StreamingRun
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.util.SerializableConfiguration
import org.json4s.jackson.{JsonMethods, Serialization}

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.common.{Errors, ModeErrors}
import io.tailrace.driver.RunState

/** Reads what the last micro-batch has fed back, all of it, and deletes it when the batch after the one that has read it is done.
  *
  * {{{
  *   batch 7 gives rows, writes tailrace-recursion/<name>/7/
  *   latestOffset -> 7     batch 8 reads 7/, and writes 8/ without rows
  *   latestOffset -> null  there is nothing to do; 7/ stays for another run of 8, 6/ and before are deleted
  * }}}
  *
  * Spark asks for the latest offset only when the batch before is committed; so, other than with files that somebody else
  * writes, what belongs to that batch is complete then, or never.
  */
private[recursion] final class FeedbackStream(
    settings: RecursionSettings,
    columns: StructType,
    run: StreamingRun,
    log: FeedbackLog,
    hadoopConf: Broadcast[SerializableConfiguration]
) extends MicroBatchStream
    with SupportsTriggerAvailableNow {

  /** The trigger `availableNow` is for all that comes of the rows that are available: until the loop has drained. */
  override def prepareForTriggerAvailableNow(): Unit = ()

  /** Asked by Spark when it has chosen how to trigger batches, before the first one. */
  override def getDefaultReadLimit: ReadLimit = {
    if (run.tracksProgressAsynchronously) throw ModeErrors.asyncProgress("tailrace.recursively")
    run.triggerAtOnceIf(() => pending.isDefined)
    ReadLimit.allAvailable()
  }

  /** The rows that the last micro-batch has fed back, if any. The log of the micro-batch before it stays for one more: the
    * last micro-batch has read it, and reads it again if its commit is taken back. Older logs are not read any more.
    */
  private def pending: Option[FeedbackOffset] =
    run.lastCommittedBatch.flatMap { batch =>
      val fedBack = log.fedBack(batch)
      log.deleteBefore(batch - 1)
      if (!fedBack.hasRows) {
        rounds.rest()
        None
      } else {
        rounds.of(batch)
        Some(FeedbackOffset(batch, fedBack.attempt))
      }
    }

  private val rounds = new RoundsWatch(settings)

  override def initialOffset(): Offset = FeedbackOffset.Start

  /** Null if there is nothing: an offset would make Spark run an empty batch. */
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

  override def createReaderFactory(): PartitionReaderFactory =
    new FeedbackReaderFactory(hadoopConf, columns.length, columns.json)

  override def commit(end: Offset): Unit = ()
  override def stop(): Unit = ()
}

private[recursion] object FeedbackStream {

  /** The feedback of the query that this thread starts. */
  def of(settings: RecursionSettings, columns: StructType): FeedbackStream = {
    val session = SparkSession.active.asInstanceOf[SparkSession]
    val run = StreamingRun.current(session)
    val hadoopConf = RunState.hadoopConf(session)
    val directory = FeedbackLog.directory(run.checkpointRoot, settings.name)
    new FeedbackStream(settings, columns, run, new FeedbackLog(directory, hadoopConf.value.value), hadoopConf)
  }
}

/** @param batch   whose rows have been read; -1: none
  * @param attempt which of its runs
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

/** The rows that go round, as a source of the query that they are of. */
final class FeedbackTable(settings: RecursionSettings, columns: StructType) extends Table with SupportsRead {
  override def name(): String = HopReport.name(settings)
  override def schema(): StructType = columns
  override def capabilities(): JavaSet[TableCapability] = EnumSet.of(TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new Scan {
      override def readSchema(): StructType = columns
      override def description(): String = s"feedback of the recursion '${settings.name}'"
      override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.UNSUPPORTED
      override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream =
        FeedbackStream.of(settings, columns)
    }
}

private[recursion] final case class FeedbackPartition(files: Seq[String]) extends InputPartition

private[recursion] final class FeedbackReaderFactory(
    hadoopConf: Broadcast[SerializableConfiguration],
    fields: Int,
    columns: String
) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val files = partition.asInstanceOf[FeedbackPartition].files
    new FeedbackReader(files, hadoopConf.value, fields, columns)
  }
}

/** Reads the rows of some files, one file after the other. */
private[recursion] final class FeedbackReader(
    files: Seq[String],
    hadoopConf: SerializableConfiguration,
    fields: Int,
    columns: String
) extends PartitionReader[InternalRow] {
  private val waiting = files.iterator
  private val row = new UnsafeRow(fields)
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
    val in = DurableFiles.in(path, hadoopConf.value).openStream(path, neededBy)
    new FeedbackFile.Reader(in, file, FeedbackLog.place(path), columns)
  }

  override def get(): InternalRow = row

  override def close(): Unit = if (reader != null) {
    reader.close()
    reader = null
  }
}
