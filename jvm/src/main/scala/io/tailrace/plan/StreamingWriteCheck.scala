package io.tailrace.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.{QueryStart, SparkPlans, SparkSession, StreamingRun}

import io.tailrace.common.{Errors, ModeErrors, TailraceConf}

/** Refuses a streaming query when it is started, in the caller's thread. */
trait WriteCheck {

  /** @throws io.tailrace.common.TailraceAnalysisException if the query can't be run */
  def apply(start: QueryStart): Unit
}

object WriteCheck {

  /** Refuses two operators of one name: they would write into one directory of the checkpoint.
    *
    * @param call the call that makes the operators
    * @param name the name of a node if it is such an operator
    */
  def uniqueNames(call: String)(name: PartialFunction[LogicalPlan, String]): WriteCheck =
    start => unique(call, start.plan.collect(name))

  def unique(call: String, names: Seq[String]): Unit =
    names.diff(names.distinct).headOption.foreach(name => throw Errors.nameExists(call, name))
}

/** Runs the checks of the query's nodes when the query is started. It is a hint rule, because those come
  * first: Spark's own resolution removes the statement that has output mode and trigger.
  *
  * @param ofAll checks of all queries, also of those without an operator of ours
  */
final class StreamingWriteCheck(ofAll: Seq[WriteCheck]) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case QueryStart(start) =>
        val nodes = start.plan.collect { case node: TailraceNode => node }
        if (nodes.nonEmpty) {
          checkModes(start, nodes)
          TailraceConf.check(SparkPlans.activeSetting)
        }
        (nodes.flatMap(_.writeChecks).distinct ++ ofAll).foreach(_(start))
      case _ =>
    }
    plan
  }

  /** Refuses triggers and output modes that an operator can't run with. Without a node that only appends,
    * Spark decides: a count after `accurate_watermark` may have any output mode.
    */
  private def checkModes(start: QueryStart, nodes: Seq[TailraceNode]): Unit = {
    if (start.isRealTime) throw ModeErrors.realTime(nodes.head.operator)
    if (start.isContinuous) throw ModeErrors.continuous(nodes.head.operator)
    if (!start.appends)
      nodes.find(_.onlyAppends).foreach(node => throw ModeErrors.output(node.operator, start.outputMode))
  }
}

/** Refuses Spark's asynchronous progress tracking where an operator keeps something of each micro-batch: a
  * restart may cut the same data into other batches. The tracking is an option of the writer, which
  * [[QueryStart]] doesn't have. So the check comes when the first batch is planned, before it has rows.
  */
object AsyncProgressCheck extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    plan match {
      case node: TailraceNode
          if node.isStreaming && node.keepsBatches && StreamingRun.isAsynchronous(SparkSession.active) =>
        throw ModeErrors.asyncProgress(node.operator)
      case _ =>
    }
    Nil
  }
}
