package io.tailrace.why

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.tailrace.checkpoint.{BegunBatch, DurableFiles, SparkCheckpoint}
import io.tailrace.common.EventTimes.iso
import io.tailrace.common.{Errors, LiteralPath}
import io.tailrace.driver.{StreamFacts, WaitText, WatermarkFacts, WatermarkText}
import io.tailrace.inspect._
import io.tailrace.join.{JoinCheckpoint, Side}
import io.tailrace.label.JoinWindow
import io.tailrace.recursion.FeedbackLog
import io.tailrace.sync.{SyncFile, SyncLog}
import io.tailrace.watermark.SourceWaits

/** Says what the rows in a query's checkpoint wait for. The query may run meanwhile.
  *
  * {{{
  *   commits, offsets     the watermark; when each batch began
  *   manifests            how many rows wait, and not before which time one of a section comes out
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

  /** @param key that is asked for; None: the oldest rows */
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
        s"Rows of batch $batch go round in the recursion '$name'. They hold the watermark of what reads them before " +
          "their event times, until they have come out."
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
      "The query has several joins. One that reads another has an earlier watermark than the query, by the other's " +
        "window: its rows come out later than it says here."
    }
    val nothing = Option.when(query.joins.isEmpty && query.others.isEmpty) {
      "No operator of the query keeps rows that come out later."
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

    /** It has no rows of the key that is asked for: it has further key columns. */
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
        if (!isSynced) newestRows = Seq(Side.Left, Side.Right).map { side =>
          StreamFacts(side, partitions.flatMap(_.sectionsOf(side)).map(_.section.maxTime).maxOption)
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
          rows.next(found).map(WaitText.next(facts, _, " of this key")) ++ KeyText.conclusion(
            found,
            join.settings
          )
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
        row.side,
        iso(row.time),
        rows.keyOf(row),
        Since(row.batch, begun(row.batch)),
        rules.leaves(row.side, row.time, row.partition, partition.manifest).map(iso),
        Option.when(row.side == Side.Left && row.keyBytes.nonEmpty)(rules.matches(row, partition))
      )
    }
  }
}
