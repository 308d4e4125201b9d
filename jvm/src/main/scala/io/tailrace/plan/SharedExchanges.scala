package io.tailrace.plan

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeWatermarkExec, StateStoreWriter}
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.tailrace.SharedExchangeExec

/** Keeps the watermark visible where a streaming query with state uses the same rows twice, of a frame that is under both
  * sides of a join for instance: see [[SharedExchangeExec]]. The rows are still shuffled once.
  *
  * A columnar rule, because those come after the rule that gives operators their state and add exchanges, and before the one
  * that finds equal exchanges. Two operators with state are never equal: each has its own state.
  */
object SharedExchanges extends ColumnarRule {
  override def postColumnarTransitions: Rule[SparkPlan] = Marking

  private object Marking extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = {
      val hasState = conf.exchangeReuseEnabled && plan.exists(_.isInstanceOf[StateStoreWriter])
      val shared = if (hasState) sharedExchanges(plan) else Set.empty[SparkPlan]
      if (shared.isEmpty) plan
      else
        plan.transformUp {
          case exchange: Exchange if shared.contains(exchange.canonicalized) =>
            SharedExchangeExec(exchange)(watermark(exchange).get)
        }
    }

    /** Those that are there several times, as Spark compares them. */
    private def sharedExchanges(plan: SparkPlan): Set[SparkPlan] = {
      val exchanges = plan.collect { case e: Exchange if watermark(e).nonEmpty => e.canonicalized }
      exchanges.diff(exchanges.distinct).toSet
    }

    private def watermark(plan: SparkPlan): Option[EventTimeWatermarkExec] =
      plan.collectFirst { case w: EventTimeWatermarkExec => w }
  }
}
