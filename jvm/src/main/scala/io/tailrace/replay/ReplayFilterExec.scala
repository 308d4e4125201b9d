package io.tailrace.replay

import java.util.UUID

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.{SparkPlans, StreamingBatch}
import org.apache.spark.util.SerializableConfiguration

/** Drops replays: records at or below the high-water mark of their producer and source partition.
  *
  * {{{
  *   records, by the destination's partition, in the order of its offsets
  *     │
  *   ReplayTask ── marks before the batch (MarkCache: the last batch's, and what it has moved)
  *     │      └──> what this task has moved ──> <checkpoint>/tailrace-replay/<name>/<batch>/, before the task ends
  *   new records
  *
  *   batch 7, marks (p, 0) -> 41:  40 41 42 43 41 44  ──>  42 43 44, and (p, 0) -> 44 for batch 8
  * }}}
  *
  * No state store, for that would want each row shuffled by producer. The batch's files are complete before Spark can
  * take the batch for done; a batch that runs again begins with the same marks and gives the same rows.
  *
  * @param metadata one binary column, or producer id, partition and offset
  * @param order    the columns whose order records are judged in; all but the last say which records must meet
  * @param flag     the column that says whether a row is a replay, if replays come out too
  * @param inOrder  whether records come in that order, so that none need be shuffled
  * @param streaming whether there are marks to begin with and to keep: not in a batch frame
  */
final case class ReplayFilterExec(
    metadata: Seq[Attribute],
    order: Seq[Attribute],
    settings: ReplaySettings,
    flag: Option[Attribute],
    inOrder: Boolean,
    streaming: Boolean,
    child: SparkPlan
) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output ++ flag
  override def producedAttributes: AttributeSet = AttributeSet(flag)

  override def requiredChildDistribution: Seq[Distribution] =
    Seq(if (inOrder) UnspecifiedDistribution else ClusteredDistribution(order.init))
  override def requiredChildOrdering: Seq[Seq[SortOrder]] =
    Seq(if (inOrder) Nil else order.map(SortOrder(_, Ascending)))
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "replays" -> SQLMetrics.createMetric(sparkContext, "replays"),
    "unprotected" -> SQLMetrics.createMetric(sparkContext, "rows without valid metadata"),
    "gaps" -> SQLMetrics.createMetric(sparkContext, "offsets that have not come")
  )

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val state = if (streaming) Some(begin(StreamingBatch.current(session), rows.getNumPartitions)) else None
    val run = new ReplayPartition(
      metadata.map(a => child.output.indexWhere(_.exprId == a.exprId)).toArray,
      child.output,
      settings,
      state,
      metrics
    )
    rows.mapPartitionsWithIndex(run)
  }

  private def begin(batch: StreamingBatch, tasks: Int): ReplayBatch = {
    val directory = new Path(new Path(batch.checkpointRoot, "tailrace-replay"), settings.name)
    val hadoopConf = SparkPlans.broadcastHadoopConf(session)
    val log = new MarkLog(directory, hadoopConf.value.value, settings.disorder)
    val files = log.before(batch.batchId)
    val filter = s"${batch.runId}/$directory"
    if (files.deltas.size >= ReplayFilterExec.DeltasPerSnapshot) {
      log.snapshot(
        batch.batchId - 1,
        MarkCache.get(filter, files, log),
        batch.batchId - 1 - conf.minBatchesToRetain
      )
    }
    ReplayBatch(filter, directory.toString, hadoopConf, files, UUID.randomUUID.toString, tasks)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): ReplayFilterExec = copy(child = newChild)
}

object ReplayFilterExec {

  /** Batches between two snapshots: the files of so many are read when a query starts. */
  private val DeltasPerSnapshot = 20
}

/** What the tasks of a micro-batch need to know. */
private[replay] final case class ReplayBatch(
    filter: String,
    directory: String,
    hadoopConf: Broadcast[SerializableConfiguration],
    files: MarkFiles,
    attempt: String,
    tasks: Int
)

/** One task. A function by inheritance: Spark need not look for closures in it.
  *
  * @param batch none for a batch frame, which begins without marks and leaves none
  */
private[replay] final class ReplayPartition(
    ordinals: Array[Int],
    columns: Seq[Attribute],
    settings: ReplaySettings,
    batch: Option[ReplayBatch],
    metrics: Map[String, SQLMetric]
) extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(index: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    lazy val log = batch.map { b =>
      new MarkLog(new Path(b.directory), b.hadoopConf.value.value, settings.disorder)
    }
    val base =
      batch.fold(new MarkTable(settings.disorder))(b => MarkCache.get(b.filter, b.files, log.get))
    val task = new ReplayTask(base, MetadataReader(ordinals))
    val toUnsafe = UnsafeProjection.create(columns, columns)
    val mark = marker()

    new Iterator[InternalRow] {
      private var waiting: InternalRow = _
      private var ended = false

      override def hasNext: Boolean = {
        if (waiting == null && !ended) waiting = nextRow()
        waiting != null
      }

      private def nextRow(): InternalRow = {
        while (rows.hasNext) {
          val row = rows.next() match {
            case unsafe: UnsafeRow => unsafe
            case other => toUnsafe(other)
          }
          val isReplay = task.isReplay(row)
          if (settings.divert || !isReplay) return mark(row, isReplay)
        }
        end()
        null
      }

      private def end(): Unit = {
        ended = true
        for { b <- batch; l <- log } l.write(b.files.batch, b.attempt, index, b.tasks, task.moved)
        metrics(
          "numOutputRows"
        ) += task.passed + task.unprotected + (if (settings.divert) task.replays else 0L)
        metrics("replays") += task.replays
        metrics("unprotected") += task.unprotected
        metrics("gaps") += task.newGaps
      }

      override def next(): InternalRow = {
        if (!hasNext) throw new NoSuchElementException("no more records")
        val row = waiting
        waiting = null
        row
      }
    }
  }

  private def marker(): (UnsafeRow, Boolean) => InternalRow =
    if (!settings.divert) (row, _) => row
    else {
      val joiner = GenerateUnsafeRowJoiner.create(
        DataTypeUtils.fromAttributes(columns),
        ReplaySettings.FlagSchema
      )
      val flags = UnsafeProjection.create(ReplaySettings.FlagSchema)
      val no = flags(InternalRow(false)).copy()
      val yes = flags(InternalRow(true)).copy()
      (row, isReplay) => joiner.join(row, if (isReplay) yes else no)
    }
}
