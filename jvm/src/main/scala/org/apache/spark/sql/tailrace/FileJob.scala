package org.apache.spark.sql.tailrace

import java.util.{Date, UUID}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.Job
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat
import org.apache.spark.TaskContext
import org.apache.spark.internal.io.{FileCommitProtocol, SparkHadoopWriterUtils}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.BindReferences.bindReferences
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils.fromAttributes
import org.apache.spark.sql.catalyst.util.{CaseInsensitiveMap, DateTimeUtils}
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.{ProjectExec, SortExec, SparkPlan}
import org.apache.spark.util.SerializableConfiguration

/** A job that writes the rows of a plan into files, a directory for each value of some columns. Its tasks are
  * those of Spark's own file sinks. Spark starts such a job by `FileFormatWriter.write`, which differs in
  * 4.2.0 and 4.2.1; the methods here are the same in both.
  *
  * @param output  the plan's columns as the query names them
  * @param options of the format
  */
final class FileJob(
    session: SparkSession,
    plan: SparkPlan,
    output: Seq[Attribute],
    format: FileFormat,
    options: Map[String, String],
    hadoopConf: Configuration
) {

  /** @param partitionBy columns that make directories below `directory`, and aren't in the files */
  def write(
      directory: Path,
      partitionBy: Seq[Attribute],
      committer: FileCommitProtocol,
      tracker: WriteJobStatsTracker
  ): Unit = {
    val job = Job.getInstance(hadoopConf)
    job.setOutputKeyClass(classOf[Void])
    job.setOutputValueClass(classOf[InternalRow])
    FileOutputFormat.setOutputPath(job, directory)
    val description = describe(job, directory, partitionBy, tracker)
    committer.setupJob(job)
    try {
      val results = run(sorted(partitionBy), description, committer)
      committer.commitJob(job, results.map(_.commitMsg))
      tracker.processStats(results.map(_.summary.stats.head), 0)
    } catch {
      case e: Throwable =>
        committer.abortJob(job)
        throw e
    }
  }

  private def describe(
      job: Job,
      directory: Path,
      partitionBy: Seq[Attribute],
      tracker: WriteJobStatsTracker
  ): WriteJobDescription = {
    val partitions = AttributeSet(partitionBy)
    val columns = output.map(FileSourceMetadataAttribute.cleanupFileSourceMetadataInformation)
    val data = columns.filterNot(partitions.contains)
    val schema = fromAttributes(data)
    DataSourceUtils.verifySchema(format, schema)
    DataSourceUtils.checkFieldNames(format, schema)
    val conf = session.sessionState.conf
    val settings = CaseInsensitiveMap(options)
    // Sets the job's properties for the format.
    val factory = format.prepareWrite(session, job, settings, schema)
    val uuid = UUID.randomUUID.toString
    job.getConfiguration.set("spark.sql.sources.writeJobUUID", uuid)
    new WriteJobDescription(
      uuid,
      new SerializableConfiguration(job.getConfiguration),
      factory,
      columns,
      data,
      partitionBy,
      None,
      directory.toString,
      Map.empty,
      settings.get("maxRecordsPerFile").fold(conf.maxRecordsPerFile)(_.toLong),
      settings.getOrElse(DateTimeUtils.TIMEZONE_OPTION, conf.sessionLocalTimeZone),
      Seq(tracker)
    )
  }

  /** A task has one file open at a time. */
  private def sorted(partitionBy: Seq[Attribute]): SparkPlan = {
    val nulls = V1WritesUtils.convertEmptyToNull(plan.output, partitionBy)
    val rows = if (nulls.isEmpty) plan else ProjectExec(nulls, plan)
    // By position: the optimizer may have given columns other ids.
    val order = bindReferences(partitionBy.map(SortOrder(_, Ascending)), output)
    SortExec(order, global = false, child = rows)
  }

  private def run(
      rows: SparkPlan,
      description: WriteJobDescription,
      committer: FileCommitProtocol
  ): Seq[WriteTaskResult] = {
    val rdd = rows.execute()
    val tracker = SparkHadoopWriterUtils.createJobTrackerID(new Date())
    val results = new Array[WriteTaskResult](rdd.partitions.length)
    session.sparkContext.runJob(
      rdd,
      FileJob.task(description, tracker, committer),
      rdd.partitions.indices,
      (index: Int, result: WriteTaskResult) => {
        committer.onTaskCommit(result.commitMsg)
        results(index) = result
      }
    )
    results.toSeq
  }
}

object FileJob {

  /** The format of Parquet files. */
  def parquet: FileFormat = new ParquetFileFormat

  /** Makes the part that goes to executors. It holds no job, session or plan. */
  private def task(
      description: WriteJobDescription,
      tracker: String,
      committer: FileCommitProtocol
  ): (TaskContext, Iterator[InternalRow]) => WriteTaskResult =
    (context, iterator) =>
      FileFormatWriter.executeTask(
        description,
        tracker,
        context.stageId(),
        context.partitionId(),
        context.taskAttemptId().toInt & Integer.MAX_VALUE,
        committer,
        iterator,
        None
      )
}
