package io.tailrace.api

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, SparkSession}

import io.tailrace.common.Arguments
import io.tailrace.erase.EraseOptions
import io.tailrace.exchange.{ImportOptions, ImportReport}

/** What Python calls about the state of a stopped query. */
private[api] trait PythonStateCalls {

  /** @return what was done, as JSON */
  def rescale(
      session: SparkSession,
      checkpoint: String,
      partitions: String,
      options: java.util.Map[String, String]
  ): String = {
    val number = new Arguments("tailrace.rescale").parsed("partitions", partitions, Int.MaxValue.toLong).toInt
    Tailrace.rescale(session, checkpoint, number, isDry(options), Option(options.get("to"))).json
  }

  /** @param where    null: the rows of the subjects
    * @param subjects null: those of the condition
    * @return what was done, as JSON
    */
  def erase(
      session: SparkSession,
      checkpoint: String,
      where: String,
      subjects: DataFrame,
      operators: java.util.List[String],
      options: java.util.Map[String, String]
  ): String = {
    val arguments = new Arguments("tailrace.erase")
    val chosen = EraseOptions(
      Option(where),
      Option(subjects),
      operators.asScala.toSeq.map(arguments.parsed("operators", _, Long.MaxValue)),
      onlyTailrace = options.get("only_tailrace") == "true",
      dryRun = isDry(options)
    )
    Tailrace.erase(session, checkpoint, chosen).json
  }

  /** @return what was written, as JSON */
  def exportState(
      session: SparkSession,
      checkpoint: String,
      directory: String,
      options: java.util.Map[String, String]
  ): String =
    Tailrace.exportState(session, checkpoint, directory, isDry(options)).json

  /** The checkpoint of an export, for the query that it is of. */
  def importExport(
      session: SparkSession,
      checkpoint: String,
      directory: String,
      options: java.util.Map[String, String]
  ): java.util.List[Long] =
    counts(Tailrace.importState(session, checkpoint, directory, isDry(options)))

  /** Its batch, and the numbers of left and right rows. */
  private def counts(of: ImportReport): java.util.List[Long] = Seq(of.batch, of.left, of.right).asJava

  private def isDry(options: java.util.Map[String, String]) = options.get("dry_run") == "true"

  /** The checkpoint of a query. @param directory of an export whose rows it begins with; null: of `left` and `right` */
  def importState(
      frame: DataFrame,
      checkpoint: String,
      directory: String,
      left: DataFrame,
      right: DataFrame,
      offsets: java.util.List[String],
      options: java.util.Map[String, String]
  ): java.util.List[Long] = {
    val chosen = new Chosen("tailrace.import_state", options)
    val (watermark, batch) = (chosen.long("watermark"), chosen.long("batch"))
    val rows =
      if (directory != null)
        Tailrace.exportedRows(
          frame.sparkSession,
          checkpoint,
          directory,
          offsets.asScala.toSeq,
          watermark,
          batch
        )
      else ImportOptions(left, right, offsets.asScala.toSeq, watermark.getOrElse(0L), batch.getOrElse(0L))
    counts(Tailrace.importState(frame, checkpoint, rows.copy(dryRun = isDry(options))))
  }
}
