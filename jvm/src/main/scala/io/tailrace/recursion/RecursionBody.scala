package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Union}
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.tailrace.SparkPlans

/** The plan of op, made ready for the rows of a generation.
  *
  * @param argument which leaves stand for the rows
  * @param clockMs  what op sees as the time: that of the micro-batch, the same when it runs again; none for a batch frame
  * @param broadcastBytes tables that op joins are broadcast up to this size: a row then finds its matches in its own task
  */
private[recursion] final class RecursionBody(
    session: SparkSession,
    argument: Long,
    plan: LogicalPlan,
    clockMs: Option[Long],
    broadcastBytes: Long
) {
  private lazy val planning = SparkPlans.planningSession(session, broadcastBytes)
  private val timed = clockMs.fold(plan)(atTime(plan, _))

  /** How often op reads its argument. */
  val reads: Int = timed.collect { case a: RecursionArgument if a.id == argument => a }.size

  def over(rows: RDD[InternalRow]): PlannedBody = {
    val ready = timed.transformUp {
      case a: RecursionArgument if a.id == argument => ArgumentRows(a.output, rows)
      case union: Union if union.children.forall(_.exists(_.isInstanceOf[ArgumentRows])) => NarrowUnion(union)
    }
    new PlannedBody(SparkPlans.executedPlan(planning, ready))
  }

  private def atTime(plan: LogicalPlan, ms: Long): LogicalPlan =
    plan.transformAllExpressionsWithPruning(_.containsPattern(CURRENT_LIKE)) {
      // Spark's own streaming node does the same; a timestamp needs no zone, which the expression wants all the same.
      case t: CurrentTimestampLike => CurrentBatchTimestamp(ms, t.dataType, Some("UTC")).toLiteral
      case t: LocalTimestamp => CurrentBatchTimestamp(ms, t.dataType, t.timeZoneId).toLiteral
      case d: CurrentDate => CurrentBatchTimestamp(ms, d.dataType, d.timeZoneId).toLiteral
    }
}

private[recursion] final class PlannedBody(plan: SparkPlan) {

  /** Whether a row's results can come into being in the row's own task. */
  def isNarrow: Boolean = !plan.exists {
    case exchange: Exchange => exchange.exists(_.isInstanceOf[ArgumentRowsExec])
    case _ => false
  }

  lazy val rows: RDD[InternalRow] = plan.execute()
}
