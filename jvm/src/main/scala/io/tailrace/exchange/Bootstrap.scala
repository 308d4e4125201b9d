package io.tailrace.exchange

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.tailrace.{SparkCheckpoints, SparkPlans, SparkSession}

import io.tailrace.checkpoint.{DurableFiles, SparkCheckpoint}
import io.tailrace.common.{LiteralPath, TailraceConf}
import io.tailrace.rewrite.NewCheckpoint
import io.tailrace.state.{CheckpointFiles, StateFileNames}

/** What the sources and the watermark of a new checkpoint are.
  *
  * @param batch       the last one that the checkpoint says has completed. The query goes on with the next one
  * @param offsets     where each source has been read to, in the order of the query, as Spark's log has them
  * @param watermarkMs of the next batch
  * @param entry       settings for Spark's offset log; none: those of the session
  * @param sources     what the sources have in their checkpoint; it is copied
  */
private[exchange] final case class Beginning(
    batch: Long,
    offsets: Seq[String],
    watermarkMs: Long,
    entry: Option[String] = None,
    sources: Option[Path] = None
)

/** Makes a checkpoint of rows: it runs the query's join for one micro-batch over them, by Spark itself, and then says
  * in Spark's logs where the query's own sources are. So state, schemas and metadata are what a query writes.
  *
  * {{{
  *   <checkpoint>-import-<unique>/   the query's batch 0, over Parquet files of the rows; the watermark is 0, so no row
  *                                   is late, and no group comes out
  *     version 1 becomes version N + 1; offsets/N, commits/N
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

  /** Refuses a checkpoint that is there, and a beginning that its query couldn't begin with. */
  def check(beginning: Beginning): Unit = {
    target.checkFree()
    LiteralPath.checkStreamed(work)
    SourceLogs.check(beginning.offsets, beginning.sources, conf)
  }

  /** Makes it, or only checks and counts the rows.
    *
    * @param leftTime column of the left rows
    * @param join     the query's, over streams of the left and the right rows, in this session
    */
  def run(left: DataFrame, right: DataFrame, leftTime: String, beginning: Beginning, dryRun: Boolean)(
      join: (DataFrame, DataFrame) => DataFrame
  ): ImportReport = {
    ReadRows.checkTimes(left, leftTime)
    def report(leftRows: Long, rightRows: Long) =
      ImportReport(checkpoint, beginning.batch, leftRows, rightRows)
    if (dryRun) report(ReadRows.count(left), ReadRows.count(right))
    else {
      target.make {
        write(join(stream("left", left), stream("right", right)))
        begin(beginning)
        made
      }
      report(counts("left"), counts("right"))
    }
  }

  /** A stream of a batch DataFrame's rows, which are read once. */
  private def stream(name: String, rows: DataFrame): DataFrame = {
    val path = new Path(work, name).toString
    rows.write.parquet(path)
    // Of the footers.
    counts(name) = LiteralPath.reader(session.read).schema(rows.schema).parquet(path).count()
    session.readStream.schema(rows.schema).parquet(path)
  }

  private def write(join: DataFrame): Unit =
    join.writeStream
      .format("noop")
      .option("checkpointLocation", made.toString)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()

  private def begin(beginning: Beginning): Unit = {
    import beginning._
    val log = new SparkCheckpoint(made, conf)
    val operators = log.operators(0)
    val others = operators.filterNot(_.id == 0).map(operator => s"operator ${operator.id} (${operator.name})")
    if (others.nonEmpty) throw ExchangeErrors.unsupported(others)
    if (batch != 0) renumber(log, batch + 1)
    if (entry.isEmpty) log.setWatermarkOf(0, watermarkMs)
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

  /** The state's version follows from the batch that has made it. */
  private def renumber(log: SparkCheckpoint, version: Long): Unit = {
    val ids = log.commit(0).checkpointIds.flatMap(_.get(0L)).map(_.map(_.head))
    (0 until log.partitions(0)).foreach { partition =>
      val directory = SparkCheckpoints.partition(log.state, 0, partition, "default")
      val state = new CheckpointFiles(directory, conf)
      val id = ids.map(_(partition))
      val before = state.readManifest(1, id)
      val written = files.names(directory).filter(StateFileNames.manifestVersion(_).contains(1L))
      state.commit(state.newManifest(version, id), before.copy(version = version), Map.empty)
      written.foreach(name => files.delete(new Path(directory, name)))
    }
  }
}

private[exchange] object Bootstrap {

  /** One batch alone, of sources without names. Runs have files of their own, whose names belong to no version. */
  private val Settings = Map(
    TailraceConf.InlineRunBytes.key -> "0",
    "spark.sql.streaming.noDataMicroBatches.enabled" -> "false",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution" -> "false",
    "spark.sql.streaming.offsetLog.formatVersion" -> "1"
  )
}
