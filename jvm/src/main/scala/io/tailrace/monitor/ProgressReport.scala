package io.tailrace.monitor

import java.sql.Timestamp
import java.time.{Instant, LocalDate, ZoneOffset}

import org.apache.hadoop.fs.Path
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.sources._
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent
import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, Row, SQLContext}
import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.common.{Errors, LiteralPath, TailraceConf}

/** A micro-batch, or the end of a query, as a row of the history. Its line is JSON, so that other tools read it as well.
  *
  * {{{
  *   {"format":1,"query":"examples","batch_id":8,"began":"2026-01-01T12:07:00.000Z","watermark":"2026-01-01T12:05:00.000Z",
  *    "lag_seconds":120.0,"late_rows":2,"metrics":[{"metric":"join_groups_emitted","labels":{...},"value":4.0}, ...]}
  * }}}
  *
  * A line has no field for a missing value.
  */
private[monitor] object ProgressReport {

  /** The columns of `tailrace-progress`. A file of an earlier version may lack some, which are null then. */
  val Schema: StructType = new StructType()
    .add("query", StringType)
    .add("query_id", StringType)
    .add("run_id", StringType)
    .add("batch_id", LongType)
    .add("began", TimestampType)
    .add("seconds", DoubleType)
    .add("input_rows", LongType)
    .add("watermark", TimestampType)
    .add("lag_seconds", DoubleType)
    .add("late_rows", LongType)
    .add("waiting_rows", LongType)
    .add("state_bytes", LongType)
    .add("ended", BooleanType)
    .add("error", StringType)
    .add(
      "metrics",
      ArrayType(
        new StructType()
          .add("metric", StringType)
          .add("labels", MapType(StringType, StringType))
          .add("value", DoubleType)
      )
    )

  /** The format of a line. New fields don't raise it; a format that earlier versions can't read gets other folders. */
  private val Format = 1

  private implicit val Formats: DefaultFormats.type = DefaultFormats

  def line(progress: StreamingQueryProgress, values: Seq[MetricValue]): String = {
    val began = Instant.parse(progress.timestamp)
    val watermark = ProgressValues.watermark(progress)
    val operators = progress.stateOperators
    Serialization.write(
      Map[String, Any](
        "format" -> Format,
        "query" -> Option(progress.name).getOrElse(progress.id.toString),
        "query_id" -> progress.id.toString,
        "run_id" -> progress.runId.toString,
        "batch_id" -> progress.batchId,
        "began" -> began.toString,
        "seconds" -> progress.batchDuration / 1e3,
        "input_rows" -> progress.numInputRows,
        "late_rows" -> operators.map(_.numRowsDroppedByWatermark).sum,
        "waiting_rows" -> operators.map(_.numRowsTotal).sum,
        "state_bytes" -> operators.map(_.memoryUsedBytes).sum,
        "ended" -> false,
        "metrics" -> values.map(metric)
      ) ++ watermark.map("watermark" -> _.toString) ++
        watermark.map(at => "lag_seconds" -> (began.toEpochMilli - at.toEpochMilli) / 1e3)
    )
  }

  /** The line of a query's end.
    *
    * @param query its name, or its id without one
    * @param error that has ended it, if it has failed
    */
  def end(query: String, event: QueryTerminatedEvent, at: Instant): String = Serialization.write(
    Map[String, Any](
      "format" -> Format,
      "query" -> query,
      "query_id" -> event.id.toString,
      "run_id" -> event.runId.toString,
      "began" -> at.toString,
      "ended" -> true
    ) ++ event.exception.map(error => "error" -> error.take(MostErrorLength))
  )

  /** The folder that a line belongs to: its day in UTC. */
  def day(at: Instant): LocalDate = LocalDate.ofInstant(at, ZoneOffset.UTC)

  /** A stack trace may be long. */
  private val MostErrorLength = 10000

  /** Counts are those of the micro-batch, so their names lack Prometheus' `_total`. */
  private def metric(value: MetricValue): Map[String, Any] = {
    val name = value.metric.series.stripPrefix("tailrace_").stripSuffix("_total")
    Map("metric" -> name, "labels" -> value.labels.toMap, "value" -> value.value)
  }
}

/** `spark.read.format("tailrace-progress").load(DIRECTORY)`: the files of [[ProgressHistory]], one row per
  * micro-batch.
  */
final class ProgressSource extends DataSourceRegister with RelationProvider {
  override def shortName(): String = "tailrace-progress"

  override def createRelation(context: SQLContext, parameters: Map[String, String]): BaseRelation = {
    val path = parameters.getOrElse("path", throw invalid(""))
    // Spark would read any JSON as rows of nulls.
    val directory = LiteralPath.of(path)
    val files = DurableFiles.in(directory, context.sparkContext.hadoopConfiguration)
    if (!files.names(directory).exists(_.startsWith("date="))) throw invalid(path)
    new ProgressRelation(context, directory)
  }

  private def invalid(path: String) = Errors.optionInvalid(
    s"""spark.read.format("${shortName()}")""",
    "path",
    path,
    s"the directory that ${TailraceConf.MonitorHistory.key} names, a minute after the first micro-batch"
  )
}

/** Files are in one folder per day. A filter of `began` leaves out the folders of other days. A line that isn't
  * JSON fails the query that reads it: no micro-batch is left out silently.
  */
private final class ProgressRelation(override val sqlContext: SQLContext, directory: Path)
    extends BaseRelation
    with PrunedFilteredScan {
  import ProgressRelation._

  private val lines =
    LiteralPath
      .reader(sqlContext.sparkSession.read)
      .schema(ProgressReport.Schema.add(Day, "date"))
      .option("mode", "FAILFAST")
      .json(directory.toString)

  override def schema: StructType = ProgressReport.Schema

  override def buildScan(columns: Array[String], filters: Array[Filter]): RDD[Row] =
    filters.flatMap(days).foldLeft(lines)(_.where(_)).select(columns.toSeq.map(col): _*).rdd
}

private object ProgressRelation {
  private val Day = "date"

  /** The condition of a filter on the folder; Spark applies all filters again to each row. */
  private def days(filter: Filter): Option[Column] = filter match {
    case GreaterThan("began", time) => day(time).map(col(Day) >= _)
    case GreaterThanOrEqual("began", time) => day(time).map(col(Day) >= _)
    case LessThan("began", time) => day(time).map(col(Day) <= _)
    case LessThanOrEqual("began", time) => day(time).map(col(Day) <= _)
    case _ => None
  }

  private def day(time: Any): Option[Column] =
    (time match {
      case time: Timestamp => Some(time.toInstant)
      case time: Instant => Some(time)
      case _ => None
    }).map(time => lit(LocalDate.ofInstant(time, ZoneOffset.UTC)))
}
