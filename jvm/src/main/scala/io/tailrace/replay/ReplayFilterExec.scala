package io.tailrace.replay

import org.apache.hadoop.fs.Path
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.{DriverCalls, SparkPlans, StreamingBatch}

import io.tailrace.common.{TailraceConf, TailraceStateException}
import io.tailrace.driver.PartitionAccumulator

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
  * @param metadata  one binary column, or producer id, partition and offset
  * @param order     the columns whose order records are judged in; all but the last say which records must meet
  * @param eventTime what origins are forgotten by, or none: the time of the batch
  * @param mark      the column `_mark`, if replays come out too
  * @param inOrder   whether records come in that order, so that none need be shuffled
  * @param streaming whether there are marks to begin with and to keep: not in a batch frame
  */
final case class ReplayFilterExec(
    metadata: Seq[Attribute],
    order: Seq[Attribute],
    eventTime: Option[Attribute],
    settings: ReplaySettings,
    mark: Option[Attribute],
    inOrder: Boolean,
    streaming: Boolean,
    child: SparkPlan
) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output ++ mark
  override def producedAttributes: AttributeSet = AttributeSet(mark)

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
    "gaps" -> SQLMetrics.createMetric(sparkContext, "offsets that have not come"),
    "returned" -> SQLMetrics.createMetric(sparkContext, "forgotten origins that are back")
  )

  @transient private lazy val counter: PartitionAccumulator[ReplayCounts] = {
    val made = new PartitionAccumulator[ReplayCounts]
    sparkContext.register(made)
    made
  }

  /** Of the batch that has run, however many actions have. */
  def counts: ReplayCounts = counter.value.values.foldLeft(ReplayCounts())(_ + _)

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val state = if (streaming) Some(begin(StreamingBatch.current(session), rows.getNumPartitions)) else None
    def ordinal(a: Attribute): Int = child.output.indexWhere(_.exprId == a.exprId)
    val columns = ReplayColumns(
      metadata.map(ordinal).toArray,
      eventTime.fold(-1)(ordinal),
      order.init,
      inOrder,
      child.output
    )
    val notices = state.fold(new ReplayNotices)(batch => MarkCache.notices(batch.filter))
    val claims = DriverCalls.register(new OriginClaims(settings.name, notices))
    rows.mapPartitionsWithIndex(new ReplayPartition(columns, settings, state, metrics, counter, claims))
  }

  private def begin(batch: StreamingBatch, tasks: Int): ReplayBatch = {
    val directory = new Path(new Path(batch.checkpointRoot, "tailrace-replay"), settings.name)
    val hadoopConf = SparkPlans.broadcastHadoopConf(session)
    val log = new MarkLog(directory, hadoopConf.value.value, settings)
    val filter = s"${batch.runId}/$directory"
    val mayBeginAnew = TailraceConf.ReplayBeginAnew.read(SparkPlans.setting(session, _))
    val files =
      try {
        val found = log.before(batch.batchId, MarkCache.files(filter))
        // Tasks would read them otherwise, and what is wrong in them would be for no start to pass.
        if (mayBeginAnew) MarkCache.get(filter, found, log): Unit
        found
      } catch {
        case e: TailraceStateException if mayBeginAnew && ReplayFilterExec.Unusable(e.getCondition) =>
          log.beginAnew(batch.batchId)
      }
    if (tasks == 0) log.write(batch.batchId, ReplayFilterExec.NoTasks, 0, 1, new MarkTable(settings.disorder))
    lazy val marks = MarkCache.get(filter, files, log)
    val forgottenBefore =
      if (settings.forgetAfterMs.isEmpty) Long.MinValue
      else settings.forgottenBefore(if (eventTime.isEmpty) batch.clockMs else marks.newestMs)
    if (forgottenBefore != Long.MinValue) {
      val forgotten = new ForgottenOrigins(marks, MarkCache.forget(filter, forgottenBefore), forgottenBefore)
      forgotten.report(directory.toString, settings)
      counter.add(PartitionAccumulator.Driver -> ReplayCounts(forgotten = forgotten.count))
    }
    val next =
      if (files.deltas.size < ReplayFilterExec.DeltasPerSnapshot) files
      else log.snapshot(batch.batchId - 1, marks, batch.batchId - 1 - conf.minBatchesToRetain)
    MarkCache.remember(filter, next)
    ReplayBatch(filter, directory.toString, hadoopConf, files, batch.clockMs, forgottenBefore, tasks)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): ReplayFilterExec = copy(child = newChild)
}

object ReplayFilterExec {

  /** Batches between two snapshots: the files of so many are read when a query starts. */
  private val DeltasPerSnapshot = 20

  /** What a user may have it begin anew after. */
  private val Unusable = Set(
    "TAILRACE_REPLAY_MARKS_INCOMPLETE",
    "TAILRACE_REPLAY_MARKS_MISSING",
    // An earlier version has let two tasks of a batch judge one origin.
    "TAILRACE_REPLAY_ORIGIN_SPLIT"
  )

  /** The attempt of a batch that has no task to write its marks. */
  private val NoTasks = new java.util.UUID(0, 0).toString
}
