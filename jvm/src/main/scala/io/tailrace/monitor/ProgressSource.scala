package io.tailrace.monitor

import java.sql.Timestamp
import java.time.{Instant, LocalDate, ZoneOffset}

import org.apache.hadoop.fs.Path
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Column, Row, SQLContext}

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.common.{Errors, LiteralPath, TailraceConf}

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
