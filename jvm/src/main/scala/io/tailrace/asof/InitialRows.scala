package io.tailrace.asof

import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, ExpressionSet}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode, Union}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.{SparkPlans, StreamingBatch}

import io.tailrace.common.Arguments
import io.tailrace.join.JoinErrors
import io.tailrace.plan.{TableColumns, TailraceNode}

/** The right side of a streaming as-of join, and the rows of a table before it. The table is a batch query of its own. It
  * runs in the query's first micro-batch only, and its rows are shuffled into the state with those of the stream:
  *
  * {{{
  *   table ──(batch 0)──┐
  *                      ├──> InitialRowsExec ──> shuffle by key ──> AsOfTask
  *   right stream ──> watermark ─┘
  * }}}
  *
  * It is above the watermark of the stream, so the table's times don't move it, and no row is late: the first
  * micro-batch has no watermark. From there on the rows are right rows as any others. The plan is the same for all
  * micro-batches, and for a query that resumes; `adr/029` has the alternatives.
  *
  * @param child   the right stream
  * @param initial the table, with the same columns in the same order. It isn't a child: Spark optimizes and plans the
  *                children with each micro-batch, and the table may be gone by then
  */
case class InitialRows(child: LogicalPlan, initial: LogicalPlan) extends UnaryNode with TailraceNode {
  override def operator: String = "tailrace.as_of"
  override def dropsRows: Boolean = false
  override def output: Seq[Attribute] = InitialRows.output(child.output, initial.output)

  // The table has all columns, so none may be pruned below, and what holds for rows of the stream may not for its rows.
  @transient override lazy val references: AttributeSet = child.outputSet
  override protected lazy val validConstraints: ExpressionSet = ExpressionSet()
  override def metadataOutput: Seq[Attribute] = Nil
  override def maxRows: Option[Long] = None

  override def innerChildren: Seq[QueryPlan[_]] = Seq(initial)

  override protected def withNewChildInternal(newChild: LogicalPlan): InitialRows = copy(child = newChild)
}

object InitialRows {

  /** The right side of an as-of join with the rows of a table: for batch DataFrames the union of both. */
  private[asof] def before(
      right: LogicalPlan,
      table: DataFrame,
      arguments: Arguments,
      sameName: (String, String) => Boolean
  ): LogicalPlan = {
    if (table.isStreaming) throw arguments.invalid(Argument, "a stream", "a batch DataFrame")
    val columns = new TableColumns(table, sameName)
    val missing = columns.lacking(right.output)
    if (missing.nonEmpty) throw JoinErrors.initialColumns(arguments.call, missing)
    val rows = SparkPlans.analyzed(columns.select(right.output))
    if (right.isStreaming) InitialRows(right, rows) else Union(Seq(right, rows))
  }

  private val Argument = "initial"

  /** A value may be null if it may be in the stream or in the table. */
  private[asof] def output(ofStream: Seq[Attribute], ofTable: Seq[Attribute]): Seq[Attribute] =
    ofStream.zip(ofTable).map { case (column, other) =>
      val typed =
        if (column.dataType == other.dataType) column
        else column.withDataType(SparkPlans.nullable(column.dataType))
      typed.withNullability(column.nullable || other.nullable)
    }
}

/** The operator of [[InitialRows]]. Each micro-batch but the first one passes the rows of the stream on. */
case class InitialRowsExec(initial: LogicalPlan, child: SparkPlan) extends UnaryExecNode with Logging {
  override def nodeName: String = "TailraceInitialRows"
  override def output: Seq[Attribute] = InitialRows.output(child.output, initial.output)
  override def simpleString(maxFields: Int): String = nodeName

  override lazy val metrics: Map[String, SQLMetric] = Map(
    InitialRowsExec.Rows -> SQLMetrics.createMetric(sparkContext, "rows of `initial`")
  )

  // A batch that runs again reads the table again: the state has committed none of its rows then.
  private def isFirst: Boolean = StreamingBatch.current(session).batchId == 0

  override protected def doExecute(): RDD[InternalRow] =
    if (!isFirst) child.execute()
    else {
      logInfo("tailrace.as_of reads `initial` into its state")
      sparkContext.union(child.execute(), counted(rows, longMetric(InitialRowsExec.Rows)))
    }

  private def rows: RDD[InternalRow] =
    SparkPlans.executedPlan(SparkPlans.planningSession(session, broadcastBytes = 0), initial).execute()

  private def counted(rows: RDD[InternalRow], metric: SQLMetric): RDD[InternalRow] =
    rows.mapPartitions { iterator =>
      iterator.map { row =>
        metric += 1
        row
      }
    }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

private object InitialRowsExec {
  val Rows = "initialRows"
}
