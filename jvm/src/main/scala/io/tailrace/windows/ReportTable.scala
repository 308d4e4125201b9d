package io.tailrace.windows

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.time.Instant

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.functions.{coalesce, col, count, lit}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.util.SerializableConfiguration

/** The reports of a folder as a DataFrame: the `_SUCCESS` of each window, and the number of its rows in
  * `_late`.
  */
object ReportTable {
  private val Share = DecimalType(19, 18)
  private val Missing = new StructType()
    .add("source", StringType)
    .add("host", StringType)
    .add("progress", TimestampType)
    .add("lag_seconds", DoubleType)
  private val Sources = new StructType()
    .add("source", StringType)
    .add("completeness", Share)
    .add("expected", LongType)
    .add("passed", LongType)
    .add("roster_version", StringType)
  private val Schema = new StructType()
    .add("window_start", TimestampType)
    .add("window_end", TimestampType)
    .add("rows", LongType)
    .add("expected", LongType)
    .add("passed", LongType)
    .add("missing", ArrayType(Missing))
    .add("completeness", Share)
    .add("low_watermark", TimestampType)
    .add("closed_at", TimestampType)
    .add("sources", ArrayType(Sources))
  private val names = Schema.fieldNames.toSeq
  private val Key = Seq("window_start", "window_end")

  /** @throws io.tailrace.common.TailraceAnalysisException TAILRACE_WINDOWS_NOT_FOUND */
  def read(session: SparkSession, folder: String): DataFrame = {
    val hadoopConf = session.sessionState.newHadoopConf()
    val named = new Path(folder)
    val path = named.getFileSystem(hadoopConf).makeQualified(named)
    val settings = new LandingLog(new LandingPaths(path, ""), hadoopConf).folder
      .getOrElse(throw WindowErrors.notFound(path.toString))
    val closed = reports(session, path, settings, new SerializableConfiguration(hadoopConf))
    closed
      .join(late(session, path, settings), Key, "full_outer")
      .withColumn("rows", coalesce(col("rows"), lit(0L)))
      .withColumn("late_rows", coalesce(col("late_rows"), lit(0L)))
      .select((names.take(3) ++ Seq("late_rows") ++ names.drop(3)).map(col): _*)
      .orderBy("window_start")
  }

  private def reports(
      session: SparkSession,
      path: Path,
      folder: FolderFile,
      hadoopConf: SerializableConfiguration
  ): DataFrame = {
    val starts = windows(session, path, folder)
    val paths = new LandingPaths(path, folder.into)
    val markers = starts.map(paths.marker(_).toString)
    val slices = Math.max(1, Math.min(markers.size, session.sparkContext.defaultParallelism))
    val rows = session.sparkContext.parallelize(markers, slices).flatMap(row(_, hadoopConf))
    session.createDataFrame(rows, Schema)
  }

  /** The starts of windows that have a directory. */
  private def windows(session: SparkSession, path: Path, folder: FolderFile): Seq[Long] = {
    val prefix = s"${folder.into}="
    val found =
      try path.getFileSystem(session.sessionState.newHadoopConf()).listStatus(path).toSeq
      catch { case _: FileNotFoundException => Nil }
    found
      .map(_.getPath.getName)
      .filter(_.startsWith(prefix))
      .flatMap(n => WindowName.parse(n.stripPrefix(prefix)))
  }

  private def row(marker: String, hadoopConf: SerializableConfiguration): Option[Row] =
    try {
      val path = new Path(marker)
      val in = path.getFileSystem(hadoopConf.value).open(path)
      try WindowReport.decode(new String(in.readAllBytes(), UTF_8)).map(row)
      finally in.close()
    } catch { case _: FileNotFoundException => None }

  private def row(report: WindowReport): Row = Row(
    timestamp(report.start),
    timestamp(report.end),
    report.rows,
    report.expected,
    report.passed,
    report.missing.map { host =>
      val lag = host.lagSeconds(report.end).map(Double.box).orNull
      Row(host.source, host.host, host.progress.map(timestamp).orNull, lag)
    },
    new java.math.BigDecimal(report.completeness),
    timestamp(report.low),
    timestamp(report.closedAt),
    report.sources.map { s =>
      Row(s.source, new java.math.BigDecimal(s.completeness), s.expected, s.passed, s.rosterVersion.orNull)
    }
  )

  /** Counts late rows each time: a user may have moved them into their windows. */
  private def late(session: SparkSession, path: Path, folder: FolderFile): DataFrame = {
    val late = new LandingPaths(path, folder.into).late
    val windows = new Windows(folder.width, folder.offset)
    val schema = new StructType().add("window_start", TimestampType).add("window_end", TimestampType)
    if (!hasFiles(session, late)) {
      session.createDataFrame(java.util.List.of[Row](), schema.add("late_rows", LongType))
    } else {
      val counts =
        session.read.parquet(late.toString).groupBy(col(s"`${folder.into}`")).agg(count(lit(1L)))
      val rows = counts.collect().toSeq.flatMap { counted =>
        WindowName.parse(counted.getString(0)).map { start =>
          Row(timestamp(start), timestamp(windows.end(start)), counted.getLong(1))
        }
      }
      val list = rows.asJava
      session.createDataFrame(list, schema.add("late_rows", LongType))
    }
  }

  private def hasFiles(session: SparkSession, directory: Path): Boolean =
    try
      directory
        .getFileSystem(session.sessionState.newHadoopConf())
        .listFiles(directory, true)
        .hasNext
    catch { case _: FileNotFoundException => false }

  // Spark's encoder accepts Instant and java.sql.Timestamp. The latter lacks the first and last times.
  private def timestamp(micros: Long): Instant = DateTimeUtils.microsToInstant(micros)
}
