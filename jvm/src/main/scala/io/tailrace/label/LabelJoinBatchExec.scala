package io.tailrace.label

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Ascending, Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{ClusteredDistribution, Distribution, Partitioning}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{BinaryExecNode, SparkPlan}
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.join.JoinColumns
import io.tailrace.state.RowMemory

/** The same join on batch frames: both sides shuffled and sorted by key and time (by Spark, which spills), then one
  * merge. It shares window, policies and group writer with the streaming operator, so both give the same rows.
  *
  * {{{
  *   left  (A,12:00) (A,12:10) (B,12:00)      right (A,12:05) (A,12:20) (C,12:00)
  *   left A,12:00 -> right rows of A from 12:00 - before to 12:00 + after, held until the key changes
  * }}}
  */
case class LabelJoinBatchExec(
    columns: JoinColumns,
    settings: JoinSettings,
    joinOutput: Seq[Attribute],
    left: SparkPlan,
    right: SparkPlan
) extends BinaryExecNode {

  override def output: Seq[Attribute] = joinOutput
  override def producedAttributes: AttributeSet = AttributeSet(joinOutput) -- left.outputSet
  override def nodeName: String = "TailraceLabelJoinBatch"
  override def simpleString(maxFields: Int): String =
    s"$nodeName ${columns.keysText}, ${settings.text}"
  override def outputPartitioning: Partitioning = left.outputPartitioning

  override def requiredChildDistribution: Seq[Distribution] =
    Seq(ClusteredDistribution(columns.leftKeys), ClusteredDistribution(columns.rightKeys))

  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(
    (columns.leftKeys :+ columns.leftTime).map(SortOrder(_, Ascending)),
    (columns.rightKeys :+ columns.rightTime).map(SortOrder(_, Ascending))
  )

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows")
  )

  override protected def doExecute(): RDD[InternalRow] = {
    val outputRows = longMetric("numOutputRows")
    // Only these two travel to the tasks, not the plan.
    val (taskColumns, taskSettings) = (columns, settings)
    left.execute().zipPartitions(right.execute()) { (leftRows, rightRows) =>
      val task = TaskContext.get()
      val merge = new BatchMerge(
        taskColumns,
        taskSettings,
        leftRows,
        rightRows,
        new RowMemory(SparkState.taskMemoryManager(task))
      )
      task.addTaskCompletionListener[Unit](_ => merge.close())
      merge.map { row =>
        outputRows += 1
        row
      }
    }
  }

  override protected def withNewChildrenInternal(
      newLeft: SparkPlan,
      newRight: SparkPlan
  ): LabelJoinBatchExec =
    copy(left = newLeft, right = newRight)
}
