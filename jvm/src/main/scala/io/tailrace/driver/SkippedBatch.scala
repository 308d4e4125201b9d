package io.tailrace.driver

import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.tailrace.{StreamingBatch, StreamingPlan}

/** An operator whose tasks tell the driver what they have seen of a micro-batch. */
trait TellsDriver extends SparkPlan {

  /** On the driver, when the sink is done with a batch: whether the operator's tasks have run. */
  def hasTold: Boolean
}

/** A micro-batch whose tasks its sink has not run, for it has the batch already.
  *
  * What tasks have seen is in the checkpoint only when the batch has ended, and the sink may have the batch for good before
  * that. When it runs again after a crash in between, the sink takes it for done and asks for none of its rows: Spark's sink of
  * files does so, Delta Lake's, and each function of `foreachBatch` that compares batch numbers. Without its tasks the driver
  * would know nothing of the batch, and forget the partitions and hosts that have come in it.
  *
  * {{{
  *   12:00:00   batch 7: tasks ── sink has it ── killed before 7.progress and commit log 7
  *   12:01:00   batch 7: sink has it already ── tasks, whose rows go nowhere ── 7.progress ── commit log 7
  *   12:01:10   batch 8: a sink that doesn't ask for its rows loses them: that is for Spark to refuse, which sees it by the state
  * }}}
  *
  * Only the first batch of a start can be one that runs again.
  */
private[tailrace] object SkippedBatch extends Logging {

  /** Set in tasks that read a batch whose rows its sink has from an earlier start. */
  val Property: String = "tailrace.batchSkipped"

  private val starts = new PerRun[AtomicBoolean]

  /** To be called when the sink is done with a batch, in the thread of the query, before anything is asked of its tasks. */
  def runIfSkipped(session: SparkSession): Unit = {
    val batch = StreamingBatch.current(session)
    val isFirst = starts.get(session, batch.runId, batch.queryId)(new AtomicBoolean(true))
    if (isFirst.getAndSet(false)) {
      val running = StreamingBatch.running(session)
      val silent =
        StreamingPlan.nodes(running.plan).collect { case node: TellsDriver if !node.hasTold => node }
      if (running.sinkMaySkip && silent.nonEmpty) {
        logWarning(
          s"TAILRACE_BATCH_SKIPPED: the sink has not asked for all rows of batch ${batch.batchId}, the first one of this " +
            s"start: it has them from an earlier one. They are read without it, for ${silent.map(_.nodeName).distinct.mkString(", ")}"
        )
        session.sparkContext.setLocalProperty(Property, batch.batchId.toString)
        try StreamingBatch.runThrough(session)
        finally session.sparkContext.setLocalProperty(Property, null)
      }
    }
  }
}
