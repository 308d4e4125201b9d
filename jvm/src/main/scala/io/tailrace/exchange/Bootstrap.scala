package io.tailrace.exchange

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.tailrace.{SparkCheckpoints, SparkPlans, SparkSession}

import io.tailrace.checkpoint.{DurableFiles, SparkCheckpoint}
import io.tailrace.common.TailraceConf
import io.tailrace.state.{CheckpointFiles, StateFileNames}

/** What the sources and the watermark of a new checkpoint are.
  *
  * @param batch       the last one that the checkpoint says has completed. The query goes on with the next one
  * @param offsets     where each source has been read to, in the order of the query, as Spark's log has them
  * @param watermarkMs of the next batch
  * @param entry       settings for Spark's offset log; none: those of the session
  */
private[exchange] final case class Beginning(
    batch: Long,
    offsets: Seq[String],
    watermarkMs: Long,
    entry: Option[String] = None
)

/** Makes a checkpoint of rows: it runs the query's join for one micro-batch over them, by Spark itself, and then says
  * in Spark's logs where the query's own sources are. So state, schemas and metadata are what a query writes.
  *
  * {{{
  *   <checkpoint>-import-<unique>/   the query's batch 0, over Parquet files of the rows; the watermark is 0, so no row
  *                                   is late, and no group comes out
  *     version 1 becomes version N + 1; offsets/N, commits/N
  *   <checkpoint>/metadata           no metadata: a query that is started now fails
  *   <checkpoint>/...                all other files are moved
  *   <checkpoint>/metadata           from here on the query can be started
  * }}}
  */
private[exchange] final class Bootstrap(of: SparkSession, checkpoint: String, settings: Map[String, String]) {

  /** Has settings of its own. */
  val session: SparkSession = SparkPlans.copyOf(of)
  (settings ++ Bootstrap.Settings).foreach { case (key, value) => session.conf.set(key, value) }

  private val conf: Configuration = session.sessionState.newHadoopConf()
  private val target = new Path(checkpoint)
  private val work = new Path(s"${checkpoint.stripSuffix("/")}-import-${UUID.randomUUID.toString.take(8)}")
  private val made = new Path(work, "checkpoint")
  private val files = DurableFiles.in(target, conf)

  def checkTarget(): Unit =
    SparkCheckpoint.readable(checkpoint) {
      if (files.list(target).nonEmpty) throw ExchangeErrors.destinationExists(checkpoint)
    }

  private val counts = mutable.HashMap.empty[String, Long]

  /** A stream of a batch DataFrame's rows, which are read once. */
  def stream(name: String, rows: DataFrame): DataFrame = {
    val path = new Path(work, name).toString
    rows.write.parquet(path)
    // Of the footers.
    counts(name) = session.read.schema(rows.schema).parquet(path).count()
    session.readStream.schema(rows.schema).parquet(path)
  }

  /** How many rows a stream has had. */
  def count(name: String): Long = counts(name)

  /** @param join the query's, over such streams, in this session */
  def run(join: => DataFrame, beginning: Beginning): Unit = {
    try
      SparkCheckpoint.readable(checkpoint) {
        write(join)
        begin(beginning)
        move()
      }
    catch {
      case e: Throwable =>
        try files.delete(work)
        catch { case NonFatal(failure) => e.addSuppressed(failure) }
        throw e
    }
    files.delete(work)
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
    files.delete(new Path(made, "sources"))
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

  private def move(): Unit = {
    val system = target.getFileSystem(conf)
    val metadata = new Path(target, "metadata")
    val own = files.read(new Path(made, "metadata"), "the import")
    files.write(metadata)(_.write(Bootstrap.Unfinished))
    files.list(made).map(_.getPath).filter(_.getName != "metadata").foreach { path =>
      val moved = new Path(target, path.getName)
      if (!path.getName.startsWith(".") && !system.rename(path, moved))
        throw ExchangeErrors.failed(checkpoint, new java.io.IOException(s"$path can't be moved"))
    }
    files.write(metadata)(_.write(own))
  }
}

private[exchange] object Bootstrap {

  /** One batch alone. Runs have files of their own, whose names belong to no version. */
  private val Settings = Map(
    TailraceConf.InlineRunBytes.key -> "0",
    "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"
  )

  /** No query's. Spark refuses to start with it. */
  private val Unfinished =
    "an import by Tailrace that isn't complete: delete this directory, and import again\n".getBytes(UTF_8)
}
