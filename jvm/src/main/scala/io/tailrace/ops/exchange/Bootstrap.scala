package io.tailrace.ops.exchange

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.{broadcast, col, lit, unix_micros}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.tailrace.{SparkCheckpoints, SparkPlans, SparkSession}

import io.tailrace.checkpoint.{DurableFiles, SparkCheckpoint}
import io.tailrace.common.{LiteralPath, TailraceConf}
import io.tailrace.join.{ImportableJoin, JoinCheckpoint}
import io.tailrace.ops.rewrite.NewCheckpoint
import io.tailrace.state.{BalanceCounts, CheckpointFiles, LateRows, Manifest, StateFileNames}

/** The result of an import.
  *
  * @param batch after which the query resumes
  * @param left  rows
  * @param right rows
  */
final case class ImportReport(checkpoint: String, batch: Long, left: Long, right: Long)

/** The state of the sources and the watermark of a new checkpoint.
  *
  * @param batch           the last one that is completed according to the checkpoint. The query resumes with the next
  * @param offsets         the end of each source's read rows, in the order of the query, as in Spark's log
  * @param watermarkMs     of the next batch
  * @param lateWatermarkMs rows of the next batch are late by it
  * @param entry           settings for Spark's offset log; none: those of the session
  * @param sources         the sources' own files in the checkpoint; they are copied
  * @param settings        the pinned settings of the checkpoint; none: those of the join
  */
private[exchange] final case class Beginning(
    batch: Long,
    offsets: Seq[String],
    watermarkMs: Long,
    lateWatermarkMs: Long,
    entry: Option[String] = None,
    sources: Option[Path] = None,
    settings: Option[Map[String, String]] = None
)

/** Makes a checkpoint of rows: it runs the query's join in Spark for one micro-batch over them, and then writes the
  * positions of the query's own sources into Spark's logs. So state, schemas and metadata are those of a real query.
  *
  * {{{
  *   <checkpoint>-import-<unique>/   the query's batch 0, over Parquet files of the rows; the watermark is 0, so no row
  *                                   is late, and no group is emitted
  *     version 1 becomes version N + 1, with facts that rows don't have; offsets/N, commits/N
  *   <checkpoint>/                   gets the files: [[NewCheckpoint]]
  * }}}
  */
private[exchange] final class Bootstrap(of: SparkSession, checkpoint: String, settings: Map[String, String]) {

  /** Has settings of its own. */
  val session: SparkSession = SparkPlans.copyOf(of)
  (settings ++ Bootstrap.Settings).foreach { case (key, value) => session.conf.set(key, value) }

  private val conf: Configuration = session.sessionState.newHadoopConf()
  private val target = new NewCheckpoint(checkpoint, conf)
  private val work = target.work
  private val made = new Path(work, "checkpoint")

  // How many rows a stream has had.
  private val counts = mutable.HashMap.empty[String, Long]
  private val files = DurableFiles.in(work, conf)

  /** Refuses a checkpoint that exists already, and a start that its query couldn't make. */
  def check(beginning: Beginning): Unit = {
    target.checkFree()
    LiteralPath.checkStreamed(work)
    SourceLogs.check(beginning.offsets, beginning.sources, conf)
  }

  /** Makes it, or only checks and counts the rows.
    *
    * @param leftTime column of the left rows
    * @param query    a plan with the query's join, in this session; it is given streams of the rows, which it may use
    */
  def run(rows: ImportedRows, leftTime: String, beginning: Beginning, dryRun: Boolean)(
      query: (DataFrame, DataFrame) => LogicalPlan
  ): ImportReport = {
    val oldest = ReadRows.oldest(rows.left, leftTime)
    val late = rows.lateVersions
    // Each of them has made a version of its own in the query that was exported.
    if (late.size > beginning.batch)
      throw ExchangeErrors.rows(
        s"right rows came late in ${late.size} micro-batches, and `batch` is ${beginning.batch}"
      )
    def report(leftRows: Long, rightRows: Long) =
      ImportReport(checkpoint, beginning.batch, leftRows, rightRows)
    if (dryRun) {
      rows.emitted.foreach(ReadRows.count)
      report(ReadRows.count(rows.left), ReadRows.count(rows.right))
    } else {
      target.make {
        val (left, right) = (rows.markedLeft, rows.markedRight(late))
        val (leftStream, rightStream) =
          (stream("left", left.frame, Some(left.mark)), stream("right", right.frame, None))
        val plan = query(leftStream.drop(left.mark), rightStream.drop(right.mark))
        write(
          SparkPlans.toFrame(
            session,
            plan.transformUp { case join: ImportableJoin =>
              join.importing(input(leftStream, join.left.output), input(rightStream, join.right.output))
            }
          )
        )
        begin(beginning)
        restate(beginning.batch + 1) { manifest =>
          rows.beside.fold(manifest)(_.restated(manifest, oldest, late))
        }
        made
      }
      report(counts("left"), counts("right"))
    }
  }

  /** A stream of a batch DataFrame's rows, which are read once.
    *
    * @param uncounted a BOOLEAN column: rows that have it don't count
    */
  private def stream(name: String, rows: DataFrame, uncounted: Option[String]): DataFrame = {
    val path = new Path(work, name).toString
    rows.write.parquet(path)
    // Read from the footers.
    val written = LiteralPath.reader(session.read).schema(rows.schema).parquet(path)
    counts(name) = uncounted.fold(written)(mark => written.where(!col(quoteIdentifier(mark)))).count()
    session.readStream.schema(rows.schema).parquet(path)
  }

  /** A stream in the place of the join's input, with the same columns followed by the mark. */
  private def input(stream: DataFrame, of: Seq[Attribute]): LogicalPlan = {
    val plan = SparkPlans.analyzed(stream)
    Project(
      of.zip(plan.output).map { case (column, read) =>
        Alias(read, column.name)(exprId = column.exprId, explicitMetadata = Some(column.metadata))
      } :+ plan.output.last,
      plan
    )
  }

  private def write(join: DataFrame): Unit =
    join.writeStream
      .format("noop")
      .option("checkpointLocation", made.toString)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()

  private lazy val log = new SparkCheckpoint(made, conf)

  private def begin(beginning: Beginning): Unit = {
    import beginning._
    val operators = log.operators(0)
    val others = operators.filterNot(_.id == 0).map(operator => s"operator ${operator.id} (${operator.name})")
    if (others.nonEmpty) throw ExchangeErrors.unsupported(others)
    ids = log.commit(0).checkpointIds.flatMap(_.get(0L)).map(_.map(_.head))
    partitions = log.partitions(0)
    beginning.settings.foreach { settings =>
      val directory = log.directory(0)
      JoinCheckpoint.write(
        directory,
        conf,
        JoinCheckpoint.read(directory, conf, 0).copy(settings = settings)
      ): Unit
    }
    if (entry.isEmpty) log.setWatermarkOf(0, lateWatermarkMs)
    val first = log.entry(0)
    val lines = Seq(first(0), entry.getOrElse(first(1))) ++ offsets
    // Spark wants the entry before the newest one, too.
    (Math.max(0, batch - 1) to batch).foreach { number =>
      files.write(new Path(made, s"offsets/$number"))(_.write(lines.mkString("\n").getBytes(UTF_8)))
    }
    log.setWatermark(0, watermarkMs)
    if (batch != 0) {
      val commit = files.read(new Path(made, "commits/0"), "the import")
      files.write(new Path(made, s"commits/$batch"))(_.write(commit))
      Seq("offsets", "commits").foreach { directory =>
        if (batch != 1 || directory == "commits") files.delete(new Path(made, s"$directory/0"))
      }
    }
    val own = new Path(made, "sources")
    files.delete(own)
    sources.foreach(DurableFiles.copyAll(_, own, conf, "the import"))
  }

  // Ids of the stores that the micro-batch has made, in checkpoint format 2, and their number.
  private var ids: Option[Array[String]] = None
  private var partitions = 0

  /** The state's version follows from the batch that has made it. */
  private def restate(version: Long)(change: Manifest => Manifest): Unit =
    (0 until partitions).foreach { partition =>
      val directory = SparkCheckpoints.partition(log.state, 0, partition, "default")
      val state = new CheckpointFiles(directory, conf)
      val id = ids.map(_(partition))
      val before = state.readManifest(1, id)
      val after = change(before).copy(version = version)
      if (after != before) {
        val written = files.names(directory).filter(StateFileNames.manifestVersion(_).contains(1L))
        val file = state.newManifest(version, id)
        state.commit(file, after, Map.empty)
        written.filter(_ != file).foreach(name => files.delete(new Path(directory, name)))
      }
    }
}

private[exchange] object Bootstrap {

  /** One batch alone, of sources without names. Runs have files of their own, whose names belong to no version. */
  private val Settings = Map(
    TailraceConf.InlineRunBytes.key -> "0",
    "spark.sql.streaming.noDataMicroBatches.enabled" -> "false",
    SparkCheckpoint.NamedSources -> "false",
    "spark.sql.streaming.offsetLog.formatVersion" -> "1"
  )
}

/** The rows that a new state is made of, with the columns of the join's sides in their order.
  *
  * @param emitted left rows that were emitted and may be amended
  * @param right   has the column `behind` after these, if that is there
  * @param behind  the watermark at which a right row was late when it arrived; null if it wasn't late
  * @param beside  the facts in the state besides its rows; none: they are rows of tables
  */
private[exchange] final case class ImportedRows(
    left: DataFrame,
    right: DataFrame,
    emitted: Option[DataFrame] = None,
    behind: Option[String] = None,
    beside: Option[CarriedState] = None
) {

  /** The versions in which right rows count as late. In the exported query, each was made by a micro-batch; the
    * number of versions in between has no meaning.
    *
    * {{{
    *   _behind   null   12:31   12:31   12:40
    *   version      1       2       2       3
    * }}}
    */
  def lateVersions: Seq[LateRows] = behind.toSeq.flatMap { name =>
    val micros = unix_micros(col(quoteIdentifier(name)))
    val found = right.select(micros).distinct().collect().toSeq.filterNot(_.isNullAt(0)).map(_.getLong(0))
    found.sorted.zipWithIndex.map { case (watermark, i) => LateRows(i + 2L, watermark) }
  }

  /** The left rows with the columns that [[io.tailrace.join.ImportableJoin.importing]] appends. */
  def markedLeft: MarkedRows = {
    val mark = ReadRows.freeName("_emitted", left.columns)
    def marked(rows: DataFrame, isEmitted: Boolean) =
      rows.select(rows.columns.toSeq.map(name => col(quoteIdentifier(name))) :+ lit(isEmitted).as(mark): _*)
    val waiting = marked(left, isEmitted = false)
    MarkedRows(emitted.fold(waiting)(of => waiting.unionByName(marked(of, isEmitted = true))), mark)
  }

  /** The same of the right rows.
    *
    * @param late [[lateVersions]]
    */
  def markedRight(late: Seq[LateRows]): MarkedRows = {
    val mark = ReadRows.freeName("_late_in", right.columns)
    val own = right.columns.toSeq.filterNot(behind.contains).map(name => col(quoteIdentifier(name)))
    if (late.isEmpty) MarkedRows(right.select(own :+ lit(null).cast("bigint").as(mark): _*), mark)
    else {
      val micros = ReadRows.freeName("_micros", mark +: right.columns.toSeq)
      val versions = right.sparkSession
        .createDataFrame(late.map(of => (of.watermark, of.version)))
        .toDF(micros, mark)
      val isSame = unix_micros(col(quoteIdentifier(behind.get))) === col(micros)
      val joined = right.join(broadcast(versions), isSame, "left")
      MarkedRows(joined.select(own :+ col(mark): _*), mark)
    }
  }
}

/** @param mark the last column */
private[exchange] final case class MarkedRows(frame: DataFrame, mark: String)

/** The facts besides its rows that a new state takes from the exported one.
  *
  * @param operatorTime none: the join doesn't use the previous one
  * @param amendsAfter  none: no left rows are amended
  * @param balance      of all partitions: each new one has the rate that follows from it
  */
private[exchange] final case class CarriedState(
    expiredThrough: Long,
    operatorTime: Option[Long],
    amendsAfter: Option[Long],
    balance: Option[BalanceCounts]
) {

  /** @param oldest time of the left rows. An edited row may be older than all rows that haven't been emitted: it is
    *               buffered, too
    */
  def restated(manifest: Manifest, oldest: Option[Long], late: Seq[LateRows]): Manifest = manifest.copy(
    expiredThrough = Math.min(expiredThrough, oldest.fold(Long.MaxValue)(_ - 1)),
    rightExpiredThrough = operatorTime.getOrElse(manifest.rightExpiredThrough),
    lateRows = late,
    amendsAfter = amendsAfter,
    balance = balance
  )
}
