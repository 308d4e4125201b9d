package io.tailrace.plan

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.internal.SQLConf

import io.tailrace.state.TailraceStateStoreProvider

/** Lets `transformWithState` run in a session whose state store provider is Tailrace's. Spark compares the provider's
  * name with that of its RocksDB provider and knows no other, although ours hands the operator's stores to just that
  * one. So the operator is replaced by one that is the same in all but this comparison.
  *
  * A columnar rule, because those come after the rule that gives state information to operators, which it does by
  * copying Spark's own classes.
  */
object TransformWithStateDelegation extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = Replacement

  private object Replacement extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan =
      if (!isOurs(conf)) plan
      else {
        plan.transform {
          case spark: TransformWithStateExec
              if spark.isStreaming && !spark.isInstanceOf[DelegatedTransformWithState] =>
            DelegatedTransformWithState(spark)
          case spark: TransformWithStateInPySparkExec
              if spark.isStreaming && !spark.isInstanceOf[DelegatedTransformWithStateInPySpark] =>
            DelegatedTransformWithStateInPySpark(spark)
        }
      }
  }

  def isOurs(conf: SQLConf): Boolean =
    conf.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS) == classOf[TailraceStateStoreProvider].getName
}
