package io.tailrace.ops.why

import scala.collection.mutable
import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.JsonAST.{JInt, JObject}
import org.json4s.jackson.JsonMethods.parse

import io.tailrace.checkpoint.{BegunBatch, DurableFiles, SparkCheckpoint}
import io.tailrace.common.EventTimes.iso
import io.tailrace.common.{Errors, LiteralPath, Side}
import io.tailrace.explain.{NextRow, StreamFacts, WaitText, WatermarkFacts, WatermarkText}
import io.tailrace.join.JoinCheckpoint
import io.tailrace.label.JoinWindow
import io.tailrace.ops.inspect._
import io.tailrace.recursion.FeedbackLog
import io.tailrace.state.{KeyDecoder, LiveSection}
import io.tailrace.sync.{SyncFile, SyncLog}
import io.tailrace.watermark.SourceWaits

/** Explains what the rows in a query's checkpoint wait for. The query may run meanwhile.
  *
  * {{{
  *   commits, offsets     the watermark; when each batch began
  *   manifests            how many rows wait, and a lower bound of a section's times
  *   runs                 the oldest rows, or those of a key
  *   tailrace-sync        the partitions that a synced join waits for
  *   tailrace-watermark   the hosts that an accurate watermark waits for
  * }}}
  *
  * @param most rows of a join that are shown
  */
private[why] final class Explanation(checkpoint: String, conf: Configuration, most: Int) {
  private val root = LiteralPath.of(checkpoint)
  private val spark = new SparkCheckpoint(root, conf)
  private val query = new CheckpointInspection(checkpoint, conf).newest
  private val batch = query.version - 1
  private val watermark = if (query.watermarkMs > 0) query.watermarkMs * 1000 else JoinWindow.NoWatermark
  private val progress: Map[String, SyncFile] = directories(SyncLog.Root).flatMap { name =>
    new SyncLog(SyncLog.directory(checkpoint, name), conf).after(batch).map(name -> _)
  }.toMap

  private def directories(name: String): Seq[String] = {
    val directory = new Path(root, name)
    DurableFiles.in(directory, conf).list(directory).filter(_.isDirectory).map(_.getPath.getName).sorted
  }

  /** @param key whose rows are shown; None: the oldest rows */
  def report(key: Option[String]): WhyReport = {
    // Hosts and marks have no rows of a key.
    if (key.nonEmpty && query.joins.isEmpty) throw Errors.checkpointWithoutJoin(checkpoint, query.others)
    val joins = query.joins.map(new ExplainedJoin(_))
    // A key that is refused is refused before anything is read.
    val asked = key.map(AskedKey.of(_, joins.map(_.columns)))
    val waits = asked match {
      case None => joins.map(_.waits(None))
      case Some(keys) =>
        joins.zip(keys).map { case (join, its) => its.fold(join.unasked)(k => join.waits(Some(k))) }
    }
    WhyReport(
      checkpoint,
      batch,
      begun(batch),
      query.version,
      Option.when(watermark != JoinWindow.NoWatermark)(iso(watermark)),
      WatermarkText.of(facts(joins.flatMap(_.newest))) ++ OffsetText.of(spark, batch) ++ others,
      key,
      waits
    )
  }

  // Rows of one batch ask for it again and again.
  private val entries = mutable.HashMap.empty[Long, Option[BegunBatch]]
  private def entry(batch: Long): Option[BegunBatch] = entries.getOrElseUpdate(batch, spark.begun(batch))
  private def begun(batch: Long): Option[String] = entry(batch).map(of => iso(of.timeMs * 1000))

  private def facts(sides: Seq[StreamFacts]): WatermarkFacts = WatermarkFacts(
    Option.when(watermark != JoinWindow.NoWatermark)(watermark),
    entry(batch).exists(_.takesGreatest),
    // With several joins it is unknown which streams their sides are.
    sides = if (query.joins.size == 1) sides else Nil,
    sources = SourceWaits.in(root, conf, batch)
  )

  private def others: Seq[String] = {
    val recursions = directories(FeedbackLog.Root).flatMap { name =>
      val log = new FeedbackLog(new Path(new Path(root, FeedbackLog.Root), name), conf)
      log.complete(batch).filter(_.files.nonEmpty).map { _ =>
        s"Rows of batch $batch are in flight in the recursion '$name'. Until they are emitted, they hold back the watermark " +
          "of the operators behind it to before their event times."
      }
    }
    val named = query.others.distinct.mkString(", ")
    val behind =
      if (query.others.isEmpty) Nil
      else if (query.joins.isEmpty) Seq(s"No join of Tailrace keeps rows here. State is kept by $named.")
      else
        Seq(
          s"The query has state of $named, too. If one of these is before a join, the join's watermark is earlier " +
            "than the query's."
        )
    val several = Option.when(query.joins.size > 1) {
      "The query has several joins. If a join reads another one, its left rows are buffered there first, and its " +
        "watermark is earlier by the other's window: its rows are emitted later than stated here."
    }
    val nothing = Option.when(query.joins.isEmpty && query.others.isEmpty) {
      "No operator of the query buffers rows."
    }
    recursions ++ behind ++ several ++ nothing
  }

  /** A join of the query. */
  private final class ExplainedJoin(join: JoinVersion) {
    val columns: StateColumns = StateColumns.of(join.bound, join.partitions.head.directory)
    private val rules = WaitRules.of(join, watermark, progress)
    private val isSynced = join.name == JoinCheckpoint.SyncJoin
    private var newestRows = Seq.empty[StreamFacts]

    /** The newest row of each side, if the query's watermark decides about them; after [[waits]]. */
    def newest: Seq[StreamFacts] = newestRows

    /** The answer where the key lacks columns of the join's key. */
    def unasked: OperatorWaits = {
      val text = s"For its rows, name its whole key: --key ${AskedKey.whole(columns)}"
      OperatorWaits(join.operator, join.name, Seq(text), Nil)
    }

    /** @param asked the key whose rows are shown; None: the oldest rows */
    def waits(asked: Option[AskedKey]): OperatorWaits = {
      val opened = mutable.ArrayBuffer.empty[StoredPartition]
      try {
        join.partitions.foreach(opened += new StoredPartition(_, rules, conf))
        val partitions = opened.toSeq
        if (!isSynced) newestRows = Side.values.map { side =>
          StreamFacts(side.name, partitions.flatMap(_.sectionsOf(side)).map(_.section.maxTime).maxOption)
        }
        val rows = new WaitingRows(partitions, rules, columns)
        val found = asked.fold(rows.oldest(most))(rows.ofKey(_, partitions.size))
        val facts =
          rules.facts(
            rows.count(Side.Left),
            rows.count(Side.Right),
            rows.next,
            partitions.map(_.manifest.expiredThrough).min
          )
        val conclusion = asked.toSeq.flatMap { _ =>
          // The facts have said it of the next row of all.
          val next = rows.next(found).filterNot(facts.next.contains)
          next.map(WaitText.next(facts, _, " of this key")) ++ KeyText.conclusion(found, join.settings)
        }
        OperatorWaits(
          join.operator,
          join.name,
          WaitText.of(facts) ++ conclusion,
          found.take(most).map(shown(_, rows, partitions)),
          Math.max(0, found.size - most).toLong
        )
      } finally opened.foreach(_.close())
    }

    private def shown(row: StoredRow, rows: WaitingRows, partitions: Seq[StoredPartition]): WaitingRow = {
      val partition = partitions(row.partition)
      WaitingRow(
        row.partition,
        row.side.name,
        iso(row.time),
        rows.keyOf(row),
        Since(row.batch, begun(row.batch)),
        rules.leaves(row.side, row.time, row.partition, partition.manifest).map(iso),
        Option.when(row.side == Side.Left && row.keyBytes.nonEmpty)(rules.matches(row, partition))
      )
    }
  }
}

/** Finds rows that wait in a join, and reads as few sections as it can for that.
  *
  * @param partitions of the join, which are opened when their rows are asked for
  */
private[why] final class WaitingRows(
    partitions: Seq[StoredPartition],
    rules: WaitRules,
    columns: StateColumns
) {
  private val keys = new KeyDecoder(columns.key.map(_.dataType).toArray)

  def count(side: Side): Long = partitions.map(_.rows(side)).sum

  /** The oldest rows, in the order of time. */
  def oldest(most: Int): Seq[StoredRow] =
    rules.shown.iterator.map(sides => oldest(partitions, sides, most)).find(_.nonEmpty).getOrElse(Nil)

  /** Sections that begin later than the rows that have been found aren't read. */
  private def oldest(of: Seq[StoredPartition], sides: Seq[Side], most: Int): Seq[StoredRow] = {
    val found = mutable.PriorityQueue.empty[StoredRow](Ordering.by((row: StoredRow) => (row.time, row.seq)))
    val sections =
      for (partition <- of; side <- sides; live <- partition.sectionsOf(side)) yield partition -> live
    def isFull: Boolean = found.size >= most
    sections.sortBy { case (partition, live) => partition.notBefore(live) }.foreach {
      case (partition, live) =>
        if (!isFull || partition.notBefore(live) <= found.head.time) partition.foreachRow(live) { cursor =>
          val isLater = isFull && cursor.time >= found.head.time
          if (!isLater && isFirstPart(live, cursor.keyBytes)) {
            found += StoredRow.at(partition.number, live.section.kind, cursor)
            if (found.size > most) found.dequeue(): Unit
          }
          // Behind it, all are later.
          !(isLater && live.section.kind.timeSorted)
        }
    }
    found.dequeueAll.reverse.toSeq
  }

  /** The row of each partition and side that is emitted next, unless another partition's is earlier for sure. */
  def next: Seq[NextRow] = {
    val bounds = for {
      partition <- partitions
      side <- rules.shown.head
      time <- partition.sectionsOf(side).map(partition.notBefore).minOption
    } yield (partition, side, needs(partition, side, time).getOrElse(time))
    var least = Long.MaxValue
    bounds.sortBy(_._3).flatMap { case (partition, side, bound) =>
      val rows = if (bound > least) Nil else oldest(Seq(partition), Seq(side), 1)
      rows.map { row =>
        val found = nextRow(row)
        least = Math.min(least, found.needs.getOrElse(row.time))
        found
      }
    }
  }

  /** The first of some rows to be emitted or to be given up. */
  def next(of: Seq[StoredRow]): Option[NextRow] =
    of.filter(row => rules.shown.head.contains(row.side)).map(nextRow).minByOption(_.needs)

  private def nextRow(row: StoredRow): NextRow = {
    val partition = partitions(row.partition)
    NextRow(
      row.time,
      isBound = false,
      row.partition,
      Some(words(row)),
      needs(partition, row.side, row.time)
    )
  }

  private def needs(partition: StoredPartition, side: Side, time: Long): Option[Long] =
    rules.leaves(side, time, partition.number, partition.manifest)

  /** The rows of both sides of a key, by time. */
  def ofKey(asked: AskedKey, total: Int): Seq[StoredRow] = {
    val probes = asked.probes(total)
    val found = for {
      partition <- partitions
      probe <- probes.getOrElse(partition.number, Nil)
      live <- Side.values.flatMap(partition.sectionsOf)
    } yield {
      val rows = Seq.newBuilder[StoredRow]
      partition.ofKey(live, probe) { cursor =>
        if (isFirstPart(live, cursor.keyBytes))
          rows += StoredRow.at(partition.number, live.section.kind, cursor)
      }
      rows.result()
    }
    found.flatten.sortBy(row => (row.time, row.side.name, row.seq))
  }

  /** A right row of a salted key is in the state once for each part of the key. */
  private def isFirstPart(live: LiveSection, key: => Array[Byte]): Boolean =
    StoredRow.isLeft(live.section.kind) || columns.part.forall(keys.decodeWhole(key).getInt(_) == 0)

  /** The columns of a row's key; none if one of them is null. */
  def keyOf(row: StoredRow): Option[Map[String, String]] = {
    val bytes = row.keyBytes
    Option.when(bytes.nonEmpty)(KeyText.of(columns, keys.decodeWhole(bytes)))
  }

  private def words(row: StoredRow): String =
    keyOf(row).fold("a key with a null")(_.map { case (name, value) => s"$name=$value" }.mkString(", "))
}

/** Which partitions of topics have stood still, by the offsets in Spark's log: one of them may hold a watermark.
  *
  * {{{
  *   offsets/6   {"clicks":{"0":40,"1":70}}
  *   offsets/7   {"clicks":{"0":90,"1":70}}      clicks-1 has stood still since batch 6, or for longer
  * }}}
  */
private[why] object OffsetText {

  /** @param last the newest batch that has completed */
  def of(spark: SparkCheckpoint, last: Long): Seq[String] = {
    val batches = spark.begunBatches.filter(_ <= last)
    val begun = batches.flatMap(batch => spark.begun(batch).map(batch -> _))
    begun.lastOption.toSeq.flatMap { case (_, newest) =>
      newest.sources.indices.flatMap(source => still(begun, source))
    }
  }

  private def still(begun: Seq[(Long, BegunBatch)], source: Int): Option[String] = {
    val read = begun.map { case (batch, entry) =>
      (batch, entry.timeMs, entry.sources.lift(source).fold(Map.empty[String, BigInt])(offsets))
    }
    val (now, earlier) = (read.last._3, read.init)
    // Since when each partition has had its offset.
    val since = now.map { case (partition, offset) =>
      val same = earlier.reverseIterator.takeWhile(_._3.get(partition).contains(offset)).toSeq
      partition -> same.lastOption
    }
    val standing = since.collect { case (partition, Some((batch, timeMs, _))) => (partition, batch, timeMs) }
    Option.when(standing.nonEmpty && standing.size < now.size) {
      val named = standing.toSeq.sortBy { case (partition, batch, _) => (batch, partition) }.take(Named)
      val texts = named.map { case (partition, batch, timeMs) =>
        s"$partition since batch $batch of ${iso(timeMs * 1000)} or before"
      }
      val more = if (standing.size > Named) s", and ${standing.size - Named} more" else ""
      s"Nothing was read of ${texts.mkString(", ")}$more, while other partitions of the topic gave records. What " +
        "they have that wasn't read is unknown here."
    }
  }

  /** The offsets of Kafka's source, by topic and partition; none of another source. */
  private def offsets(text: String): Map[String, BigInt] = Try(parse(text)).toOption
    .collect { case JObject(topics) =>
      for {
        (topic, JObject(partitions)) <- topics
        (partition, JInt(offset)) <- partitions
        if partition.toIntOption.nonEmpty
      } yield s"$topic-$partition" -> offset
    }
    .fold(Map.empty[String, BigInt])(_.toMap)

  private val Named = 5
}

/** The content of `tailrace why --json`. `jvm/docs/formats.md` describes the fields. Times are ISO 8601 in UTC,
  * and None if they aren't known.
  *
  * @param text who holds the watermark, and what else is known, in sentences
  * @param key  whose rows are shown
  */
final case class WhyReport(
    checkpoint: String,
    batch: Long,
    batchTime: Option[String],
    version: Long,
    watermark: Option[String],
    text: Seq[String],
    key: Option[String],
    operators: Seq[OperatorWaits]
)

/** The rows that wait in a join.
  *
  * @param text what they wait for, in sentences
  * @param rows the oldest, or those of the key
  * @param more how many rows of the key there are beside these
  */
final case class OperatorWaits(
    operator: Long,
    name: String,
    text: Seq[String],
    rows: Seq[WaitingRow],
    more: Long = 0
)

/** @param key     by the left side's names; None: a null is among its columns
  * @param since   the micro-batch that read the row
  * @param leaves  the watermark at which it is emitted or is given up; of a synced join's left row, how far the
  *                right side has to be read
  * @param matches rows of the other side that it matches so far; None of right rows
  */
final case class WaitingRow(
    partition: Int,
    side: String,
    time: String,
    key: Option[Map[String, String]],
    since: Since,
    leaves: Option[String],
    matches: Option[Long]
)

/** @param time when the batch began; None: Spark's offset log doesn't go back so far */
final case class Since(batch: Long, time: Option[String])
