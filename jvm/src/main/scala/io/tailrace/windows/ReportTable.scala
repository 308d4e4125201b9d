package io.tailrace.windows

import java.io.FileNotFoundException
import java.time.Instant

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.functions.{coalesce, col, lit, when}
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.common.{Arguments, LiteralPath}
import io.tailrace.tables.{TableCommits, TableFormat, TargetTable}

/** Reports as a DataFrame: those of a folder, the `_SUCCESS` of each window, or those of a table, the documents of its
  * commits. And how many rows are in `_late` of the folder.
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
  private val arguments = new Arguments("tailrace.window_report")
  private val Key = Seq("window_start", "window_end")

  /** The column of the query's folder, which no report has. */
  private val Folder = "folder"

  /** @param named  the folder, or the table of a format
    * @param format of `write_windows`
    * @throws io.tailrace.common.TailraceAnalysisException TAILRACE_WINDOWS_NOT_FOUND
    */
  def read(session: SparkSession, named: String, format: String): DataFrame =
    WindowFormat.tables(arguments, format).fold(ofFolder(session, named))(ofTable(session, named, _))

  private def ofFolder(session: SparkSession, folder: String): DataFrame = {
    val path = LiteralPath.qualified(folder, session.sessionState.newHadoopConf())
    val settings = settingsOf(session, path).getOrElse(throw WindowErrors.notFound(path.toString))
    joined(reports(session, path, settings), late(session, Seq((folder, path, settings))).drop(Folder))
      .withColumn("late_rows", coalesce(col("late_rows"), lit(0L)))
  }

  /** Late rows are null if the folder of the query isn't there any more. */
  private def ofTable(session: SparkSession, named: String, format: TableFormat): DataFrame = {
    format.checkName(arguments, named)
    // Iceberg's catalog keeps what a session has loaded.
    val table = new TargetTable(SparkPlans.copyOf(session), named, format).found
    val documents = TableCommits.documents(table.getOrElse(throw WindowErrors.notFound(named)))
    val reports =
      documents.flatMap(text => WindowReport.decode(text).map(_ -> WindowReport.folder(text).orNull))
    val folders = for {
      folder <- reports.map(_._2).filter(_ != null).distinct
      path = LiteralPath.of(folder)
      settings <- settingsOf(session, path)
    } yield (folder, path, settings)
    val rows = reports.map { case (report, folder) => Row.fromSeq(row(report).toSeq :+ folder) }
    val found = session.createDataFrame(rows.asJava, Schema.add(Folder, StringType))
    val known = folders.map(_._1)
    // Queries with windows of the same times may write one table.
    joined(found, late(session, folders), Folder)
      .withColumn("late_rows", coalesce(col("late_rows"), when(col(Folder).isin(known: _*), lit(0L))))
      .drop(Folder)
  }

  private def settingsOf(session: SparkSession, folder: Path): Option[FolderFile] =
    new LandingLog(new LandingPaths(folder, ""), session.sessionState.newHadoopConf()).folder

  private def joined(reports: DataFrame, late: DataFrame, more: String*): DataFrame =
    reports
      .join(late, Key ++ more, "full_outer")
      .withColumn("rows", coalesce(col("rows"), lit(0L)))
      .select((names.take(3) ++ Seq("late_rows") ++ names.drop(3) ++ more).map(col): _*)
      .orderBy("window_start")

  private def reports(session: SparkSession, path: Path, settings: FolderFile): DataFrame = {
    val hadoopConf = new SerializableConfiguration(session.sessionState.newHadoopConf())
    val into = settings.into
    def log = new LandingLog(new LandingPaths(path, into), hadoopConf.value)
    // Those that closed last have a record besides their `_SUCCESS`, which somebody may have deleted.
    val last =
      if (settings.table.nonEmpty) Map.empty[Long, String]
      else log.newestClosed().toSeq.flatMap(_._2.windows).map(one => one.start -> one.report).toMap
    val starts = (log.windows ++ last.keys).distinct
    val slices = Math.max(1, Math.min(starts.size, session.sparkContext.defaultParallelism))
    val rows = session.sparkContext.parallelize(starts, slices).mapPartitions { part =>
      val ofTask = log
      part
        .flatMap(start => ofTask.marked(start).orElse(last.get(start).flatMap(WindowReport.decode)))
        .map(row)
    }
    session.createDataFrame(rows, Schema)
  }

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
  private def late(session: SparkSession, folders: Seq[(String, Path, FolderFile)]): DataFrame = {
    val rows = folders.flatMap { case (name, path, folder) =>
      lateOf(session, path, folder).map(counted => Row.fromSeq(counted.toSeq :+ name))
    }
    val counts = StructType(Schema.take(2)).add("late_rows", LongType)
    session.createDataFrame(rows.asJava, counts.add(Folder, StringType))
  }

  private def lateOf(session: SparkSession, path: Path, folder: FolderFile): Seq[Row] = {
    val late = new LandingPaths(path, folder.into).late
    val windows = new Windows(folder.width, folder.offset)
    val counts =
      if (!hasFiles(session, late)) Nil
      else
        LiteralPath
          .reader(session.read)
          .parquet(late.toString)
          .groupBy(col(s"`${folder.into}`"))
          .count()
          .collect()
          .toSeq
    counts.flatMap { counted =>
      WindowName.parse(counted.getString(0)).map { start =>
        Row(timestamp(start), timestamp(windows.end(start)), counted.getLong(1))
      }
    }
  }

  private def hasFiles(session: SparkSession, directory: Path): Boolean = {
    val fileSystem = directory.getFileSystem(session.sessionState.newHadoopConf())
    try fileSystem.listFiles(directory, true).hasNext
    catch { case _: FileNotFoundException => false }
  }

  // Spark's encoder accepts Instant and java.sql.Timestamp. The latter lacks the first and last times.
  private def timestamp(micros: Long): Instant = DateTimeUtils.microsToInstant(micros)
}
