package io.tailrace.driver

import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.{SparkSession, StreamingBatch, StreamingPlan}

/** A micro-batch whose tasks have not run, because its sink has the batch already.
  *
  * The results of tasks are written into the checkpoint when the batch ends, maybe after the sink has
  * committed it. If the process is killed in between, the batch runs again, and the sink asks for none of its
  * rows: so do Spark's file sink, Delta Lake's sink, and each function of `foreachBatch` that compares batch
  * numbers. Without the tasks the driver would forget the partitions and hosts whose first rows are in the
  * batch.
  *
  * {{{
  *   12:00:00   batch 7: tasks ── sink has it ── killed before 7.progress and commit log 7
  *   12:01:00   batch 7: sink has it already ── we run the tasks ── 7.progress ── commit log 7
  *   12:01:10   batch 8: a sink that doesn't ask for its rows loses them. Spark refuses that
  * }}}
  *
  * Only the first batch of a run can be a batch that runs again.
  */
private[tailrace] object SkippedBatch extends Logging {

  /** A local property of tasks that run without the sink. */
  val Property: String = "tailrace.batchSkipped"

  private val starts = new RunState[AtomicBoolean]

  /** Call it in the query's thread when the sink is done with a batch, before the results of tasks are used.
    */
  def runIfSkipped(session: SparkSession): Unit = {
    val batch = StreamingBatch.current(session)
    val isFirst = starts.of(session, "first batch")(new AtomicBoolean(true))
    if (isFirst.getAndSet(false)) {
      val running = StreamingBatch.running(session)
      val silent =
        StreamingPlan.nodes(running.plan).collect { case node: TellsDriver if !node.hasTold => node }
      if (running.sinkMaySkip && silent.nonEmpty) {
        logWarning(
          s"TAILRACE_BATCH_SKIPPED: the sink has not asked for all rows of batch ${batch.batchId}, the " +
            "first batch of this run: it has them from an earlier run. Tailrace runs the tasks without the " +
            s"sink, for ${silent.map(_.nodeName).distinct.mkString(", ")}"
        )
        session.sparkContext.setLocalProperty(Property, batch.batchId.toString)
        try StreamingBatch.runThrough(session)
        finally session.sparkContext.setLocalProperty(Property, null)
      }
    }
  }
}
