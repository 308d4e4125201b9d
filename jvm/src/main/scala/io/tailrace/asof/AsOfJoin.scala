package io.tailrace.asof

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.types.{StructField, StructType}

import io.tailrace.common.{Mark, Side, StepwiseRows}
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
import io.tailrace.plan.{Columns, OwnColumns, WriteCheck}
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
    initial: Option[DataFrame],
    sameName: (String, String) => Boolean
) {

  def resolve(on: Seq[(String, String)], options: AsOfOptions): LogicalPlan = {
    val settings = options.settings
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
