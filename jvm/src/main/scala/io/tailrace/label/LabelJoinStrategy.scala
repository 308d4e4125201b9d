package io.tailrace.label

import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.common.TailraceConf
import io.tailrace.join.StoredJoinExec

/** Logical to physical, and nothing else. Keeps no state: a stream under AQE plans the same node again and again. */
object LabelJoinStrategy extends SparkStrategy {
  override def apply(plan: org.apache.spark.sql.catalyst.plans.logical.LogicalPlan): Seq[SparkPlan] =
    plan match {
      case join: LabelJoin if join.isStreaming =>
        val settings = join.settings.copy(strategy = strategy(join.settings))
        val stored = StoredLabelJoin(join.columns, settings)
        StoredJoinExec(stored, join.output, planLater(join.left), planLater(join.right)) :: Nil
      case join: LabelJoin =>
        LabelJoinBatchExec(
          join.columns,
          join.settings,
          join.output,
          planLater(join.left),
          planLater(join.right)
        ) :: Nil
      case _ => Nil
    }

  /** Pairs are due as soon as both rows are there: eager. Groups are due when the window has closed: lazy, which writes
    * each row once and reads it once; eager is for those who say so, because their right rows are many, mostly match
    * nothing, and would wait for the end of a long window (`adr/006`).
    */
  private def strategy(settings: JoinSettings): MatchStrategy =
    if (!settings.isGrouped) MatchStrategy.Eager
    else {
      val wish = TailraceConf.JoinStrategy.read(SparkPlans.activeSetting)
      MatchStrategy.values.find(_.name == wish).getOrElse(MatchStrategy.Lazy)
    }
}
