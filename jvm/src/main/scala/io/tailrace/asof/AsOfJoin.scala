package io.tailrace.asof

import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Dataset
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet, ExpressionSet}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode, Union}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.tailrace.{SparkPlans, StreamingBatch}
import org.apache.spark.sql.types.{StructField, StructType}

import io.tailrace.common.{Arguments, Mark, Side, StepwiseRows}
import io.tailrace.join.{
  BatchJoinExec,
  IdleTimeout,
  JoinColumns,
  JoinErrors,
  JoinNode,
  JoinSides,
  SortedSide,
  StoredJoinExec
}
import io.tailrace.plan.{Columns, OwnColumns, TableColumns, TailraceNode, WriteCheck}
import io.tailrace.state.RowMemory

/** The logical node of `tailrace.as_of`, for batch and streaming DataFrames.
  *
  * @param added the column of the right row
  */
case class AsOfJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    leftTime: Attribute,
    rightTime: Attribute,
    settings: AsOfSettings,
    added: Seq[Attribute]
) extends JoinNode {
  override def operator: String = "tailrace.as_of"
  override def idleTimeoutMs: Option[Long] = settings.idleTimeoutMs
  override def writeChecks: Seq[WriteCheck] =
    super.writeChecks ++ settings.idleTimeoutMs.map(_ => IdleTimeout.Check)
  override def paired: Seq[Attribute] = Nil
  override def dropsRows: Boolean = false
  override def holdsRows: Boolean = true
  override def description: String = "a tailrace.as_of"
  override def rightComesOutAlone: Boolean = false
  override def rightTimes: Seq[(Attribute, Attribute)] = Nil

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): AsOfJoin =
    copy(left = newLeft, right = newRight)
}

/** Finds the columns that the arguments name, and checks what can be checked before a query runs.
  *
  * @param initial  a table with right rows from before the others
  * @param sameName the session's rule for names, case-insensitive by default
  */
private[tailrace] final class AsOfResolution(
    left: LogicalPlan,
    right: LogicalPlan,
    initial: Option[Dataset[_]],
    sameName: (String, String) => Boolean
) {

  def resolve(on: Seq[(String, String)], options: AsOfOptions): LogicalPlan = {
    val settings = options.settings.copy(hasInitial = initial.nonEmpty)
    val rights = initial.fold(right)(InitialRows.before(right, _, options.arguments, sameName))
    val sides = new JoinSides(options.arguments, left, rights, sameName, options.words)
    sides.checkAreAlike()
    sides.withWiderKeys(on, rightAlone = false)(resolve(_, on, options, settings))
  }

  private def resolve(
      sides: JoinSides,
      on: Seq[(String, String)],
      options: AsOfOptions,
      settings: AsOfSettings
  ): LogicalPlan = {
    val (leftKeys, rightKeys) = sides.keys(on)
    val (leftTime, rightTime) = sides.times(options.leftTime, options.rightTime)
    sides.checkWatermarks(leftTime, rightTime)
    val payload = sides.payload(rightKeys)
    if (payload.isEmpty) throw JoinErrors.labelEmpty(settings.into)
    val fields = StructType(payload.map(a => StructField(a.name, a.dataType, a.nullable)))
    val added = AttributeReference(settings.into, fields, nullable = true)()
    sides
      .columns(Side.Left)
      .checkAdded(added.name, s"Choose another name than '${added.name}' for `${options.words.into}`.")
    val marks = if (settings.late == LateLefts.Marked) Seq(Mark.attribute()) else Nil
    marks.foreach { mark =>
      sides.columns(Side.Left).checkAdded(mark.name, Columns.rename(mark.name))
      if (sameName(added.name, mark.name))
        throw options.arguments.invalid(options.words.into, added.name, s"a name other than ${mark.name}")
    }
    OwnColumns.renewable(
      AsOfJoin(
        sides.left,
        sides.right,
        leftKeys,
        rightKeys,
        leftTime,
        rightTime,
        settings,
        added +: marks
      )
    )
  }
}

object AsOfStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    plan match {
      case join: AsOfJoin if join.isStreaming =>
        val stored = StoredAsOf(join.columns, join.settings)
        StoredJoinExec(stored, join.output, planLater(join.left), planLater(join.right)) :: Nil
      case join: AsOfJoin =>
        val (left, right) = (planLater(join.left), planLater(join.right))
        AsOfBatchExec(join.columns, join.settings, join.output, left, right) :: Nil
      case InitialRows(right, initial) => InitialRowsExec(initial, planLater(right)) :: Nil
      case _ => Nil
    }
}

/** The as-of join of batch DataFrames. */
case class AsOfBatchExec(
    columns: JoinColumns,
    settings: AsOfSettings,
    joinOutput: Seq[Attribute],
    left: SparkPlan,
    right: SparkPlan
) extends BatchJoinExec {
  override def nodeName: String = "TailraceAsOfBatch"
  override protected def settingsText: String = settings.text

  override protected def newMerge: BatchJoinExec.NewMerge = {
    val (taskColumns, taskWindow) = (columns, settings.window)
    new AsOfBatchMerge(taskColumns, taskWindow, _, _, _)
  }

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): SparkPlan =
    copy(left = newLeft, right = newRight)
}

/** Joins two iterators that are sorted by key and time. Holds one right row. Each row that is emitted is valid
  * until the next one.
  */
private final class AsOfBatchMerge(
    columns: JoinColumns,
    window: AsOfWindow,
    leftRows: Iterator[InternalRow],
    rightRows: Iterator[InternalRow],
    memory: RowMemory
) extends StepwiseRows[InternalRow]
    with AutoCloseable {
  private val left = SortedSide.left(leftRows, columns)
  private val right = SortedSide.right(rightRows, columns)
  private val payload = columns.payloadProjection()
  private val writer = new AsOfWriter(columns, memory)
  private val newest = new NewestRow
  private var key: Option[Array[Byte]] = None

  override protected def step(): InternalRow = {
    left.dropHead()
    if (!left.hasHead) {
      end()
      null
    } else if (!left.canMatch) writer.alone(left.head)
    else {
      find()
      val isFound = !newest.isEmpty && window.takes(left.time, newest.time)
      if (isFound) writer.write(left.head, newest) else writer.alone(left.head)
    }
  }

  private def find(): Unit = {
    if (!key.exists(left.compareKey(_) == 0)) {
      key = Some(left.copyKey())
      newest.clear()
    }
    val point = window.point(left.time)
    while (right.hasHead && isBehind(key.get, point)) {
      if (right.canMatch && right.compareKey(key.get) == 0) {
        val value = payload(right.head)
        newest.offer(right.time, value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)
      }
      right.dropHead()
    }
  }

  private def isBehind(ofKey: Array[Byte], point: Long): Boolean = !right.canMatch || {
    val order = right.compareKey(ofKey)
    order < 0 || order == 0 && right.time <= point
  }

  override def close(): Unit = writer.close()
}

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
      table: Dataset[_],
      arguments: Arguments,
      sameName: (String, String) => Boolean
  ): LogicalPlan = {
    if (table.isStreaming) throw arguments.invalid(AsOfOptions.Initial, "a stream", "a batch DataFrame")
    val columns = new TableColumns(table.toDF(), sameName)
    val missing = columns.lacking(right.output)
    if (missing.nonEmpty) throw JoinErrors.initialColumns(arguments.call, missing)
    val rows = SparkPlans.analyzed(columns.select(right.output))
    if (right.isStreaming) InitialRows(right, rows) else Union(Seq(right, rows))
  }

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
