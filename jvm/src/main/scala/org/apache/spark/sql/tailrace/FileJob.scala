package org.apache.spark.sql.tailrace

import java.util.{Date, UUID}

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.Job
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat
import org.apache.spark.TaskContext
import org.apache.spark.internal.io.{FileCommitProtocol, SparkHadoopWriterUtils}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.BindReferences.bindReferences
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions
import org.apache.spark.sql.catalyst.types.DataTypeUtils.fromAttributes
import org.apache.spark.sql.catalyst.util.{CaseInsensitiveMap, DateTimeUtils}
import org.apache.spark.sql.execution.adaptive.{
  AdaptiveSparkPlanExec,
  AdaptiveSparkPlanHelper,
  ShuffleQueryStageExec
}
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.{LogicalRDD, ProjectExec, SortExec, SparkPlan}
import org.apache.spark.sql.internal.SQLConf
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

  /** @param partitionBy columns that make directories below `directory`, and aren't in the files
    * @param sortBy      columns by which the rows of a file are sorted
    */
  def write(
      directory: Path,
      partitionBy: Seq[Attribute],
      sortBy: Seq[Attribute],
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
      val results = run(sorted(partitionBy, sortBy), description, committer)
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
  private def sorted(partitionBy: Seq[Attribute], sortBy: Seq[Attribute]): SparkPlan = {
    val nulls = V1WritesUtils.convertEmptyToNull(plan.output, partitionBy)
    val rows = if (nulls.isEmpty) plan else ProjectExec(nulls, plan)
    // By position: the optimizer may have given columns other ids.
    val order = bindReferences((partitionBy ++ sortBy).map(SortOrder(_, Ascending)), output)
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

/** Counts the rows of each file that a job writes. */
final class RowsPerFile extends WriteJobStatsTracker {
  @transient private var counts = Map.empty[String, Long]

  /** The numbers of rows by the path of the file, when the job has ended. */
  def rows: Map[String, Long] = counts

  override def newTaskInstance(): WriteTaskStatsTracker = new RowsPerFile.OfTask

  override def processStats(stats: Seq[WriteTaskStats], jobCommitTime: Long): Unit =
    counts = stats.collect { case RowsPerFile.Counted(rows) => rows }.flatten.toMap
}

object RowsPerFile {
  final case class Counted(rows: Seq[(String, Long)]) extends WriteTaskStats

  final class OfTask extends WriteTaskStatsTracker {
    private val counts = mutable.HashMap.empty[String, Long]

    // Rows of one file follow each other, unless a setting makes Spark write several files at once.
    private var file = ""
    private var rows = 0L

    override def newPartition(partitionValues: InternalRow): Unit = ()
    override def newFile(filePath: String): Unit = counts(filePath) = 0

    override def newRow(filePath: String, row: InternalRow): Unit = {
      if (filePath != file) turnTo(filePath)
      rows += 1
    }

    private def turnTo(next: String): Unit = {
      if (file.nonEmpty) counts(file) += rows
      file = next
      rows = 0
    }

    override def closeFile(filePath: String): Unit = ()

    override def getFinalStats(taskCommitTime: Long): WriteTaskStats = {
      turnTo("")
      Counted(counts.toSeq)
    }
  }
}

/** Gathers the rows of a micro-batch by some columns, into tasks of about one size.
  *
  * {{{
  *   the plan's tasks ──> shuffle ──> how many bytes of each value? ──> merged tasks, and parts of large ones
  * }}}
  *
  * Spark's adaptive execution does it. A streaming query has none, so the micro-batch's own plan runs as the
  * rows of another one.
  *
  * @param keepsTogether whether rows with equal columns go to one task, however many they are
  */
final class GatheredRows(session: SparkSession, keepsTogether: Boolean) extends AdaptiveSparkPlanHelper {
  private val adaptive = {
    val copy = session.cloneSession()
    val on = Seq(SQLConf.ADAPTIVE_EXECUTION_ENABLED, SQLConf.COALESCE_PARTITIONS_ENABLED)
    on.foreach(entry => copy.conf.set(entry.key, "true"))
    val splits = SQLConf.ADAPTIVE_OPTIMIZE_SKEWS_IN_REBALANCE_PARTITIONS_ENABLED
    copy.conf.set(splits.key, (!keepsTogether).toString)
    // Otherwise it makes as many tasks as there are cores, however small they are.
    copy.conf.set(SQLConf.COALESCE_PARTITIONS_PARALLELISM_FIRST.key, "false")
    copy
  }
  private val least = adaptive.sessionState.conf.numShufflePartitions.toLong

  /** Runs a job on the gathered rows.
    *
    * @param output the plan's columns as the query names them
    * @param bytes  of the shuffle in a task, about
    * @param parts  of the shuffle, of which small ones are merged; never fewer than the session's number
    * @return the result of the job, and the bytes of the whole shuffle
    */
  def run[T](
      plan: SparkPlan,
      output: Seq[Attribute],
      by: Seq[Attribute],
      bytes: Long,
      parts: Option[Long]
  )(job: SparkPlan => T): (T, Long) = adaptive.withActive {
    val rows = LogicalRDD(output, plan.execute())(adaptive)
    // Spark takes either a number or a size with the node.
    parts.foreach { number =>
      val most = Math.min(Math.max(number, least), GatheredRows.MostParts)
      adaptive.conf.set(SQLConf.COALESCE_PARTITIONS_INITIAL_PARTITION_NUM.key, most)
    }
    val rebalanced = RebalancePartitions(by, rows, optAdvisoryPartitionSize = Some(bytes))
    adaptive.sessionState.executePlan(rebalanced).executedPlan match {
      case gathered: AdaptiveSparkPlanExec =>
        // As a part of the query's execution: on its own, it would replace that one's plan in Spark's UI.
        val part = gathered.copy(isSubquery = true)
        val done = job(part)
        // Through stages, which are leaves of the plan: the last one has the others below it.
        val shuffles = collect(part) { case stage: ShuffleQueryStageExec => stage.mapStats }
        (done, shuffles.flatten.map(_.bytesByPartitionId.sum).sum)
      case other => throw new IllegalStateException(s"Spark doesn't adapt ${other.nodeName}")
    }
  }
}

private object GatheredRows {

  /** A shuffle has a block for each task before it and each of its parts. */
  private val MostParts = 10_000L
}
