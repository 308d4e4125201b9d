package io.tailrace.replay

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.time.Instant
import java.util.BitSet

import scala.collection.mutable

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.tailrace.{DriverAnswers, SparkSession, StreamingBatch}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

import io.tailrace.driver.{PartitionValue, RunState}

/** The driver's state of one filter in one run of a query.
  *
  * @param name      in [[MarkCache]]
  * @param directory in the checkpoint
  */
private[replay] final class FilterRun(val name: String, val directory: Path) extends Logging {

  // The last batch of this run: the files of the next one, its marks, and the marks that it has moved.
  private var last = Option.empty[(MarkFiles, MarkTable, Option[Broadcast[Array[Byte]]])]

  private def doneBefore(batch: Long) = last.filter(_._1.batch == batch)

  /** The files and the marks that a batch begins with. If this run has done the batch before, nothing is read.
    */
  def begin(batch: Long, log: MarkLog): (MarkFiles, MarkTable) = synchronized {
    val files = doneBefore(batch) match {
      case Some((files, marks, _)) =>
        // Not when a batch is done: tasks of that batch may still begin, and need the marks before it.
        MarkCache.put(name, batch - 1, marks)
        files
      case None => log.before(batch)
    }
    files -> MarkCache.get(name, files, log)
  }

  /** Writes the marks of a batch that is done, once.
    *
    * @param begun the files that the batch has begun with
    * @param send  sends the bytes of its file to the executors
    */
  def end(begun: MarkFiles, log: MarkLog, marks: MarkTable, tables: Seq[Array[Byte]])(
      send: Array[Byte] => Option[Broadcast[Array[Byte]]]
  ): Unit = synchronized {
    if (!last.exists(_._1.batch > begun.batch)) {
      val bytes = log.write(begun.batch, tables)
      last = Some((begun.next, marks, send(bytes)))
    }
  }

  /** The marks that the previous batch has moved, if this run has executed it and executors are remote. Spark
    * removes them when no batch refers to them.
    */
  def movedBefore(batch: Long): Option[Broadcast[Array[Byte]]] = synchronized(doneBefore(batch).flatMap(_._3))

  /** The notices that the user has got. */
  val notices = new ReplayNotices

  private var forgottenBefore = Long.MinValue

  /** Counts the origins that a batch forgets and the batch before it did not. Logs them, because a replay of
    * their records would pass.
    *
    * @param marks  the marks before the batch
    * @param before origins that were last seen before this time, in ms, are forgotten
    */
  def forget(marks: MarkTable, before: Long, settings: ReplaySettings): Long = synchronized {
    val forgotten = Iterator
      .range(0, marks.size)
      .filter(e => marks.isBefore(e, before) && marks.lastSeenMs(e) >= forgottenBefore)
      .toArray
    forgottenBefore = Math.max(forgottenBefore, before)
    if (forgotten.nonEmpty) {
      val named = forgotten.take(FilterRun.MostNamed).map { e =>
        s"producer ${marks.pid(e)}, partition ${marks.partition(e)}, mark ${marks.mark(e)}, " +
          s"last seen ${Instant.ofEpochMilli(marks.lastSeenMs(e))}"
      }
      logWarning(
        s"TAILRACE_REPLAY_FORGOTTEN: the filter ${settings.name} in $directory has forgotten " +
          s"${forgotten.length} origins without a record for forget_after = " +
          s"${settings.forgetAfterMs.getOrElse(0L)} ms. If an origin comes back, its first record passes " +
          s"unjudged, and is counted as returned. ${named.mkString("; ")}" +
          (if (forgotten.length > FilterRun.MostNamed) "; ..." else "")
      )
    }
    forgotten.length.toLong
  }
}

private[replay] object FilterRun {

  /** The most origins that a log line names. */
  private val MostNamed = 10

  private val runs = new RunState[FilterRun](run => MarkCache.drop(run.name))

  def of(session: SparkSession, batch: StreamingBatch, filter: String): FilterRun =
    runs.of(session, batch.runId, filter) {
      val directory = new Path(new Path(batch.checkpointRoot, MarkLog.Root), filter)
      new FilterRun(s"${batch.runId}/$directory", directory)
    }
}

/** A fact about a filter's records that a user is notified of once.
  *
  * @param text what follows "the filter NAME has read from PLACE"
  */
private[replay] final case class ReplayNotice(bit: Int, name: String, text: String)

private[replay] object ReplayNotices {
  val Doubtful: ReplayNotice = ReplayNotice(
    1,
    "TAILRACE_REPLAY_DOUBTFUL",
    "a record whose key is as long as metadata but isn't metadata. Such records pass unfiltered, and are " +
      "counted as doubtful and unprotected. Is `key` the column that stream_metadata has made?"
  )
  val Untagged: ReplayNotice = ReplayNotice(
    2,
    "TAILRACE_REPLAY_UNTAGGED",
    "a record whose 20 bytes are taken for metadata of the older form, which has no tag. Other keys of 20 " +
      "bytes that look like it would be dropped. Write the records with the stream_metadata of this " +
      "version, or make sure that all keys of 20 bytes are metadata"
  )
  val Moved: ReplayNotice = ReplayNotice(
    4,
    "TAILRACE_REPLAY_MOVED",
    "records of an origin that were read from another partition before. Have the destination's partitions " +
      "been changed? All earlier records must be read first"
  )
  val FromStart: ReplayNotice = ReplayNotice(
    8,
    "TAILRACE_REPLAY_FROM_START",
    "a record of offset 0 of an origin that was further on, and dropped it as a replay. If the producer's " +
      "source was created again under its name, its records are dropped until their offsets pass the old " +
      "ones: give producer_id another epoch"
  )

  val all: Seq[ReplayNotice] = Seq(Doubtful, Untagged, Moved, FromStart)
}

/** Logs each notice once in a run of a query. */
private[tailrace] final class ReplayNotices extends Logging {
  private var told = 0

  def tell(notice: ReplayNotice, filter: String, place: String): Unit = synchronized {
    if ((told & notice.bit) == 0) {
      told |= notice.bit
      logWarning(s"${notice.name}: the filter $filter has read from $place ${notice.text}.")
    }
  }
}

/** Gathers on the driver the marks that the tasks of a batch have moved. Each task sends its own before it
  * ends. So no batch is complete before its marks are written, nor one in which two tasks have judged records of
  * one origin, neither knowing the records of the other.
  *
  * {{{
  *   task 0, of topic-2/0:  (p, 0) -> 44, (p, 2) -> 9  ──> taken
  *   task 1, of topic-2/1:  (p, 1) -> 17, (p, 2) -> 8  ──> (p, 2) is topic-2/0's: the task fails, and the batch
  *   task 1, of topic-2/1:  (p, 1) -> 17               ──> taken; the last one: written, then it may end
  * }}}
  *
  * A task that runs twice sends the same again, and the first message counts.
  *
  * @param tasks  how many there are
  * @param before the marks that the batch begins with, which aren't changed
  * @param done   is given the marks after the batch, and the tables that the tasks have sent. If it throws, it
  *               is called again when a task sends again. None: marks aren't kept
  */
private[tailrace] final class BatchMarks(
    settings: ReplaySettings,
    notices: ReplayNotices,
    tasks: Int,
    private var before: MarkTable,
    done: Option[(MarkTable, Seq[Array[Byte]]) => Unit]
) extends DriverAnswers {
  import BatchMarks._

  private var after = before
  // The entries of `after` that a task has judged.
  private val judged = new BitSet
  private val tables = mutable.ArrayBuffer.empty[Array[Byte]]

  // By attempt, until its last message: attempts at one task are never mixed.
  private val coming = mutable.HashMap.empty[Long, mutable.ArrayBuffer[Array[Byte]]]
  private val told = new BitSet
  private val refused = mutable.HashMap.empty[Int, Array[Byte]]
  private var isBroken = false
  private var isDone = false

  /** Ends a batch that has no tasks. */
  def endIfEmpty(): Unit = synchronized(if (tasks == 0) end())

  override def answer(question: Array[Byte]): Array[Byte] = synchronized {
    if (isBroken)
      throw new IllegalStateException(s"the filter ${settings.name} has failed to gather the batch's marks")
    val in = new DataInputStream(new ByteArrayInputStream(question))
    val (task, attempt, isLast, bits, place) =
      (in.readInt(), in.readLong(), in.readBoolean(), in.readInt(), in.readUTF())
    coming.getOrElseUpdate(attempt, mutable.ArrayBuffer.empty) += in.readAllBytes()
    if (!isLast) Accepted
    else {
      ReplayNotices.all
        .filter(notice => (bits & notice.bit) != 0)
        .foreach(notices.tell(_, settings.name, place))
      val sent = coming.remove(attempt).get
      if (!told.get(task)) {
        // A part of a task's marks must not count as all of them when it sends again, for example for lack of memory.
        isBroken = true
        // A task that is refused once is refused each time.
        take(sent.toSeq).foreach(refused(task) = _)
        told.set(task)
        isBroken = false
      }
      if (told.cardinality == tasks && refused.isEmpty && !isDone) end()
      refused.getOrElse(task, Accepted)
    }
  }

  /** @return the answer to a task that has judged an origin which another one has judged */
  private def take(sent: Seq[Array[Byte]]): Option[Array[Byte]] = {
    var conflict = Option.empty[Array[Byte]]
    sent.filter(MarkFile.entriesIn(_) > 0).foreach { table =>
      if (after eq before) after = settings.next(before)
      MarkFile.decodeTable(table, after) { entry =>
        if (judged.get(entry) && conflict.isEmpty) conflict = Some(split(after, entry))
        judged.set(entry)
      }
      if (done.isDefined) tables += table
    }
    conflict
  }

  private def end(): Unit = {
    done.foreach(_(after, tables.toSeq))
    isDone = true
    tables.clear()
    // Spark may keep this for as long as the batch's plan: there may be millions of marks.
    before = null
    after = null
  }
}

private[tailrace] object BatchMarks {
  private val Accepted = Array.emptyByteArray

  private def split(marks: MarkTable, entry: Int): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeLong(marks.pid(entry))
    out.writeInt(marks.partition(entry))
    out.writeUTF(marks.homes.name(marks.home(entry)).getOrElse(""))
    bytes.toByteArray
  }

  /** In bytes. A message between Spark's processes has at most 128 MiB. */
  private val MostAtOnce = 12 << 20

  /** Sends the marks that a task has moved to the driver, which keeps them.
    *
    * @param task     the index of its partition
    * @param attempt  at the task
    * @param disorder that of the driver's table
    * @param ask      the driver
    */
  final class Report(task: Int, attempt: Long, disorder: Int, ask: Array[Byte] => Array[Byte]) {

    /** @param notices for the driver, by [[ReplayNotice.bit]]
      * @throws io.tailrace.common.TailraceStateException TAILRACE_REPLAY_ORIGIN_SPLIT
      */
    def send(moved: MarkTable, notices: Int): Unit = {
      val atOnce = Math.max(1, MostAtOnce / MarkFile.entryLength(disorder))
      val place = if (moved.homes.size == 0) "" else moved.homes.name(0).get
      val parts = (0 until Math.max(moved.size, 1)) by atOnce
      parts.foreach { from =>
        val isLast = from + atOnce >= moved.size
        val table = MarkFile.encodeTable(moved, from, Math.min(from + atOnce, moved.size), disorder)
        val bytes = new ByteArrayOutputStream(table.length + place.length + 64)
        val out = new DataOutputStream(bytes)
        out.writeInt(task)
        out.writeLong(attempt)
        out.writeBoolean(isLast)
        out.writeInt(notices)
        out.writeUTF(place)
        out.write(table)
        val answer = ask(bytes.toByteArray)
        if (answer.nonEmpty) {
          val in = new DataInputStream(new ByteArrayInputStream(answer))
          val (pid, partition) = (in.readLong(), in.readInt())
          val here = moved.homes.name(moved.home(moved.find(pid, partition))).getOrElse("")
          throw ReplayErrors.originSplit(pid, partition, in.readUTF(), here)
        }
      }
    }
  }
}

/** The counts of a filter in a micro-batch.
  *
  * @param passed      new records
  * @param replays     records that were written again
  * @param unprotected records without valid metadata, which pass
  * @param doubtful    those of them whose key has the length of metadata
  * @param gaps        offsets that are newly missing, less missing offsets that have come after all
  * @param returned    origins that had been forgotten and are back: the first record of each has passed
  *                    unjudged
  * @param forgotten   origins that were forgotten before this batch
  * @param mostGaps    the origins with the most offsets missing in all, of those that had records in the
  *                    batch
  */
final case class ReplayCounts(
    passed: Long = 0,
    replays: Long = 0,
    unprotected: Long = 0,
    doubtful: Long = 0,
    gaps: Long = 0,
    returned: Long = 0,
    forgotten: Long = 0,
    mostGaps: Seq[OriginGaps] = Nil
) extends PartitionValue[ReplayCounts] {

  /** Records that were judged. */
  private def records: Long = passed + replays + unprotected

  override def max(other: ReplayCounts): ReplayCounts = if (other.records > records) other else this

  def +(other: ReplayCounts): ReplayCounts = ReplayCounts(
    passed + other.passed,
    replays + other.replays,
    unprotected + other.unprotected,
    doubtful + other.doubtful,
    ReplayCounts.saturated(gaps, other.gaps),
    returned + other.returned,
    forgotten + other.forgotten,
    ReplayCounts.most(mostGaps ++ other.mostGaps)
  )

  /** The row in the query's progress. */
  def toRow: Row = new GenericRowWithSchema(
    Array(passed, replays, unprotected, gaps, returned, forgotten, mostGaps.map(_.toRow), doubtful),
    ReplayCounts.Schema
  )
}

/** @param gaps how many offsets below the mark of an origin have not come */
final case class OriginGaps(pid: Long, partition: Int, gaps: Long) {
  def toRow: Row = new GenericRowWithSchema(Array(pid, partition, gaps), OriginGaps.Schema)
}

object OriginGaps {
  val Schema: StructType =
    new StructType().add("pid", LongType).add("partition", IntegerType).add("gaps", LongType)
}

object ReplayCounts {

  /** The most origins that the progress names: people read it. */
  private val Origins = 20

  val Schema: StructType = Seq("passed", "replays", "unprotected", "gaps", "returned", "forgotten")
    .foldLeft(new StructType())(_.add(_, LongType))
    .add("mostGaps", ArrayType(OriginGaps.Schema))
    .add("doubtful", LongType)

  /** A sum that doesn't overflow: two origins together may miss more offsets than a long holds. */
  def saturated(a: Long, b: Long): Long = {
    val sum = a + b
    // It has overflowed if both have the other sign than the sum.
    if (((a ^ sum) & (b ^ sum)) < 0) { if (a < 0) Long.MinValue else Long.MaxValue }
    else sum
  }

  /** The origins with the most gaps first. The order doesn't depend on the order of the tasks. */
  def most(origins: Seq[OriginGaps]): Seq[OriginGaps] =
    origins.filter(_.gaps > 0).sortBy(o => (-o.gaps, o.pid, o.partition)).take(Origins)
}

/** Reads the origin and offset of a row, from one column of bytes or from three columns. */
abstract class MetadataReader {
  protected var pidRead = 0L
  protected var partitionRead = 0
  protected var offsetRead = 0L

  /** The producer id of the last row that [[read]] has found valid. */
  def pid: Long = pidRead
  def partition: Int = partitionRead
  def offset: Long = offsetRead

  /** Rows whose metadata has no tag. Other keys may be mistaken for such metadata. */
  var untagged = 0L

  /** Rows whose key has the length of metadata but isn't metadata. */
  var doubtful = 0L

  /** @return false if the row has no valid metadata */
  def read(row: UnsafeRow): Boolean
}

object MetadataReader {

  /** @param ordinals one, of a binary column, or three: of producer id, partition and offset */
  def apply(ordinals: Array[Int]): MetadataReader =
    if (ordinals.length == 1) new OfKey(ordinals(0))
    else new OfColumns(ordinals(0), ordinals(1), ordinals(2))

  // In the byte order of the machine, to compare it in place.
  private val Tag = Integer.reverseBytes(RecordMetadata.Tag)

  private final class OfKey(ordinal: Int) extends MetadataReader {
    override def read(row: UnsafeRow): Boolean =
      !row.isNullAt(ordinal) && {
        // Read in place: an array for each row would cost as much as the filter.
        val offsetAndSize = row.getLong(ordinal)
        val size = offsetAndSize.toInt
        val base = row.getBaseObject
        val at = row.getBaseOffset + (offsetAndSize >>> 32)
        if (size == RecordMetadata.Length) readTagged(base, at)
        else size == RecordMetadata.UntaggedLength && readUntagged(base, at)
      }

    private def readTagged(base: AnyRef, at: Long): Boolean = Platform.getInt(base, at) == Tag && {
      readParts(base, at + RecordMetadata.TagLength)
      val valid = RecordMetadata.isInRange(partitionRead, offsetRead)
      if (!valid) doubtful += 1
      valid
    }

    private def readUntagged(base: AnyRef, at: Long): Boolean = {
      readParts(base, at)
      val plausible = RecordMetadata.isPlausible(partitionRead, offsetRead)
      if (plausible) untagged += 1 else doubtful += 1
      plausible
    }

    private def readParts(base: AnyRef, at: Long): Unit = {
      pidRead = java.lang.Long.reverseBytes(Platform.getLong(base, at))
      partitionRead = Integer.reverseBytes(Platform.getInt(base, at + 8))
      offsetRead = java.lang.Long.reverseBytes(Platform.getLong(base, at + 12))
    }
  }

  private final class OfColumns(pidAt: Int, partitionAt: Int, offsetAt: Int) extends MetadataReader {
    override def read(row: UnsafeRow): Boolean =
      !row.isNullAt(pidAt) && !row.isNullAt(partitionAt) && !row.isNullAt(offsetAt) && {
        pidRead = row.getLong(pidAt)
        partitionRead = row.getInt(partitionAt)
        offsetRead = row.getLong(offsetAt)
        val valid = RecordMetadata.isInRange(partitionRead, offsetRead)
        if (!valid) doubtful += 1
        valid
      }
  }
}

/** Notifies a task of the partition that its rows are read from, whenever that changes.
  *
  * @param columns that name the partition
  * @param oneOnly whether all rows of the task are of one partition, as when a task reads one partition of
  *                Kafka
  */
private[replay] final class RecordHomes(columns: Seq[Attribute], all: Seq[Attribute], oneOnly: Boolean)(
    enter: String => Unit
) {
  private lazy val ordering = RowOrdering.create(columns.map(SortOrder(_, Ascending)), all)
  private val fields = columns.map(BindReferences.bindReference[Expression](_, all))
  private var current: UnsafeRow = _

  def of(row: UnsafeRow): Unit =
    if (current == null || (!oneOnly && ordering.compare(current, row) != 0)) {
      current = row.copy()
      enter(fields.map(text(_, current)).mkString("/"))
    }

  /** Two values never have the same text, and neither have two lists of values. */
  private def text(field: Expression, row: InternalRow): String = (field.eval(row), field.dataType) match {
    case (null, _) => "\\N"
    case (bytes: Array[Byte], _) => java.util.HexFormat.of.formatHex(bytes)
    case (value, dataType) =>
      val words = Cast(Literal(value, dataType), StringType, Some("UTC")).eval().toString
      words.replace("\\", "\\\\").replace("/", "\\/")
  }
}

/** The time of a record, for [[MarkTable.see]].
  *
  * @param ordinal  of a timestamp column, or -1 for the time of the batch
  * @param batchMs  the time of the batch
  * @param newestMs the latest time of any record before the batch, which is the time of a record without an
  *                 event time
  */
final class RecordClock(ordinal: Int, batchMs: Long, newestMs: Long) {

  /** In ms. Never later than the batch: otherwise one clock far in the future would make all other origins be
    * forgotten.
    */
  def timeMs(row: UnsafeRow): Long =
    if (ordinal < 0) batchMs
    else if (row.isNullAt(ordinal)) newestMs
    else Math.min(batchMs, Math.floorDiv(row.getLong(ordinal), 1000L))
}
