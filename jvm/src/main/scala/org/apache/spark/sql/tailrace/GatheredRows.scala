package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, ShuffleQueryStageExec}
import org.apache.spark.sql.execution.{LogicalRDD, SparkPlan}
import org.apache.spark.sql.internal.SQLConf

/** Gathers the rows of a micro-batch by some columns, into tasks of about one size.
  *
  * {{{
  *   the plan's tasks ──> shuffle ──> how many bytes of each value? ──> merged tasks, and parts of large ones
  * }}}
  *
  * Spark's adaptive execution does it. A streaming query has none, so the micro-batch's own plan runs as the
  * rows of another one.
  */
final class GatheredRows(session: SparkSession) {
  private val adaptive = {
    val copy = session.cloneSession()
    val on = Seq(
      SQLConf.ADAPTIVE_EXECUTION_ENABLED,
      SQLConf.COALESCE_PARTITIONS_ENABLED,
      SQLConf.ADAPTIVE_OPTIMIZE_SKEWS_IN_REBALANCE_PARTITIONS_ENABLED
    )
    on.foreach(entry => copy.conf.set(entry.key, "true"))
    // Otherwise it makes as many tasks as there are cores, however small they are.
    copy.conf.set(SQLConf.COALESCE_PARTITIONS_PARALLELISM_FIRST.key, "false")
    copy
  }

  /** Runs a job on the gathered rows.
    *
    * @param output the plan's columns as the query names them
    * @param bytes  of the shuffle in a task, about
    * @return the result of the job, and the bytes of the whole shuffle
    */
  def run[T](plan: SparkPlan, output: Seq[Attribute], by: Seq[Attribute], bytes: Long)(
      job: SparkPlan => T
  ): (T, Long) = adaptive.withActive {
    val rows = LogicalRDD(output, plan.execute())(adaptive)
    val rebalanced = RebalancePartitions(by, rows, optAdvisoryPartitionSize = Some(bytes))
    adaptive.sessionState.executePlan(rebalanced).executedPlan match {
      case gathered: AdaptiveSparkPlanExec =>
        // As a part of the query's execution: on its own, it would replace that one's plan in Spark's UI.
        val part = gathered.copy(isSubquery = true)
        val done = job(part)
        val shuffles = part.executedPlan.collect { case stage: ShuffleQueryStageExec => stage.mapStats }
        (done, shuffles.flatten.map(_.bytesByPartitionId.sum).sum)
      case other => throw new IllegalStateException(s"Spark doesn't adapt ${other.nodeName}")
    }
  }
}
