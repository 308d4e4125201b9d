package io.tailrace.examples

import java.util.UUID

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}

import io.tailrace.driver.{PartitionAccumulator, ReportExec}
import io.tailrace.join.OutputRows
import io.tailrace.plan.TailraceNode

/** Counts the examples of a micro-batch as they pass. Spark's node of `observe` evaluates its aggregates row by row without
  * generated code, which took 3.5 % of the time of a query with one label (ADR 22).
  *
  * @param name      in `observedMetrics`
  * @param made      the id of the call that has made it: a DataFrame that is used twice has it twice
  * @param isExample whether a row is counted; false before the join, where only the sample is
  * @param events    the labels' columns
  * @param truncated whether the cap has cut them
  * @param dropped   whether each predicate of the sample has left a row out
  */
private[tailrace] final case class CountExamples(
    name: String,
    made: UUID,
    names: CountedNames,
    isExample: Expression,
    events: Seq[Expression],
    truncated: Seq[Expression],
    dropped: Seq[Expression],
    child: LogicalPlan
) extends UnaryNode
    with TailraceNode {
  override def operator: String = ExampleOptions.arguments.call
  override def keepsBatches: Boolean = false
  override def dropsRows: Boolean = false
  override def keepsTasks: Boolean = true

  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): CountExamples = copy(child = newChild)
}

private[tailrace] object CountExamplesStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case CountExamples(name, _, names, isExample, events, truncated, dropped, child) =>
      val exec = CountExamplesExec(names, isExample, events, truncated, dropped, planLater(child))
      ReportExec(name, exec) { case counting: CountExamplesExec => counting.report } :: Nil
    case _ => Nil
  }
}

/** The physical node of [[CountExamples]]. */
private[examples] final case class CountExamplesExec(
    names: CountedNames,
    isExample: Expression,
    events: Seq[Expression],
    truncated: Seq[Expression],
    dropped: Seq[Expression],
    child: SparkPlan
) extends UnaryExecNode {
  override def nodeName: String = "TailraceCountExamples"
  override def simpleString(maxFields: Int): String = s"$nodeName ${names.text}"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  @transient private lazy val counter = PartitionAccumulator.registered[ExampleCount](sparkContext)

  /** The counts of the micro-batch that has run, however many actions it had. */
  def report: Row = {
    val none = ExampleCount.none(events.size, dropped.size)
    names.row(counter.value.values.foldLeft(none)(_ + _))
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val columns = CountedColumns(child.output, isExample, events, truncated, dropped)
    val counter = this.counter
    child.execute().mapPartitionsWithIndex { (index, rows) =>
      val counting = new RowCounting(columns)
      // Not at the end of the rows: a limit doesn't ask for all.
      TaskContext.get().addTaskCompletionListener[Unit](_ => counter.add(index -> counting.count))
      val observed = rows match {
        case joined: OutputRows => joined
        case others => new OutputRows(others, _ => ())
      }
      observed.observe(counting)
      observed
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): CountExamplesExec = copy(child = newChild)
}
