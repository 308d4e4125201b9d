package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Union}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.tailrace.SparkPlans

/** The plan of op, made ready for the rows of a generation.
  *
  * @param argument which leaves stand for the rows
  * @param clockMicros what op sees as the time: that of the query, and of the micro-batch, the same when it runs again
  * @param batchSeed see [[OpAtHop]]
  * @param broadcastBytes tables that op joins are broadcast up to this size: a row then finds its matches in its own task
  */
private[recursion] final class RecursionBody(
    session: SparkSession,
    argument: Long,
    plan: LogicalPlan,
    clockMicros: Long,
    batchSeed: Option[Long],
    broadcastBytes: Long,
    sizes: TableSizes
) {
  private lazy val planning = SparkPlans.planningSession(session, broadcastBytes)
  private lazy val op = {
    val small = new SmallTables(planning, argument, broadcastBytes, sizes)
    new OpAtHop(argument, small.hinted(plan), clockMicros, batchSeed)
  }

  /** How often op reads its argument. */
  val reads: Int = plan.collect { case a: RecursionArgument if a.id == argument => a }.size

  /** For tasks that make all hops of their rows. */
  def inTasks(rows: ArgumentRDD): PlannedBody = planned(op.inTasks, rows)

  /** For a job that makes one hop of all rows. */
  def at(hop: Int, rows: RDD[InternalRow]): RDD[InternalRow] = planned(op.at(hop), rows).rows

  private def planned(op: LogicalPlan, rows: RDD[InternalRow]): PlannedBody = {
    val ready = op.transformUp {
      case a: RecursionArgument if a.id == argument => ArgumentRows(a.output, rows)
      case union: Union if union.children.forall(_.exists(_.isInstanceOf[ArgumentRows])) => NarrowUnion(union)
    }
    new PlannedBody(SparkPlans.executedPlan(planning, ready))
  }
}

private[recursion] final class PlannedBody(plan: SparkPlan) {

  lazy val rows: RDD[InternalRow] = plan.execute()

  /** Whether a row's results can come into being in the row's own task. */
  def isNarrow: Boolean = !exchangesArgument && ArgumentRDD.isComputedInPlace(rows)

  /** A broadcast of the argument isn't to be seen in RDDs, and a shuffle must not be prepared for nothing. */
  private def exchangesArgument: Boolean = plan.exists {
    case exchange: Exchange => exchange.exists(_.isInstanceOf[ArgumentRowsExec])
    case _ => false
  }
}
