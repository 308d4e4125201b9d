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
import io.tailrace.plan.{Obstacle, TailraceNode}

/** Counts the examples of a micro-batch as they pass. Spark's node of `observe` is slower (ADR 22).
  *
  * @param name      in `observedMetrics`
  * @param made      distinguishes this node from others of its name; a DataFrame that is used twice has it twice
  * @param isExample whether a row is counted; false before the join, where only the sample is
  * @param events    the labels' columns
  * @param truncated whether the cap has cut them
  * @param dropped   whether each predicate of the sample has left a row out
  */
private[tailrace] final case class CountExamples(
    name: String,
    made: UUID,
    counted: CountedNames,
    isExample: Expression,
    events: Seq[Expression],
    truncated: Seq[Expression],
    dropped: Seq[Expression],
    child: LogicalPlan
) extends UnaryNode
    with TailraceNode {
  override def operator: String = ExampleOptions.arguments.call
  override def onlyLooks: Boolean = true
  override def refusedInRecursion: Option[Obstacle] =
    Some(Obstacle(operator, "its counts would be of each hop"))

  override def output: Seq[Attribute] = child.output

  /** Two definitions that are equal give the same rows: a cached one is found by another call. */
  override protected def doCanonicalize(): LogicalPlan =
    super.doCanonicalize().asInstanceOf[CountExamples].copy(made = CountExamples.NoId)

  override protected def withNewChildInternal(newChild: LogicalPlan): CountExamples = copy(child = newChild)
}

private object CountExamples {
  val NoId = new UUID(0, 0)
}

private[tailrace] object CountExamplesStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case CountExamples(name, _, counted, isExample, events, truncated, dropped, child) =>
      val exec = CountExamplesExec(counted, isExample, events, truncated, dropped, planLater(child))
      ReportExec(name, exec) { case counting: CountExamplesExec => counting.report } :: Nil
    case _ => Nil
  }
}

/** The physical node of [[CountExamples]]. */
private[examples] final case class CountExamplesExec(
    counted: CountedNames,
    isExample: Expression,
    events: Seq[Expression],
    truncated: Seq[Expression],
    dropped: Seq[Expression],
    child: SparkPlan
) extends UnaryExecNode {
  override def nodeName: String = "TailraceCountExamples"
  override def simpleString(maxFields: Int): String = s"$nodeName ${counted.text}"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  @transient private lazy val counter = PartitionAccumulator.registered[ExampleCount](sparkContext)

  /** The counts of the micro-batch that has run, however many actions it had. */
  def report: Row = {
    val none = ExampleCount.none(events.size, dropped.size)
    counted.row(counter.value.values.foldLeft(none)(_ + _))
  }

  // An action of a batch DataFrame restarts the counts.
  override def resetMetrics(): Unit = {
    counter.reset()
    super.resetMetrics()
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val columns = CountedColumns(child.output, isExample, events, truncated, dropped)
    child.execute().mapPartitionsWithIndex(new CountedPartition(columns, counter))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): CountExamplesExec = copy(child = newChild)
}

/** One task. It extends the function type, so Spark need not clean a closure. */
private final class CountedPartition(columns: CountedColumns, counter: PartitionAccumulator[ExampleCount])
    extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(index: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val counting = new RowCounting(columns)
    // Not at the end of the rows: a limit doesn't ask for all.
    TaskContext.get().addTaskCompletionListener[Unit](_ => counter.add(index -> counting.count))
    val observed = rows match {
      case joined: OutputRows => joined
      case others => new OutputRows(others)
    }
    observed.observe(counting)
    observed
  }
}
