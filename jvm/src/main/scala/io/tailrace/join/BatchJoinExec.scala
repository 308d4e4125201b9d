package io.tailrace.join

import java.util.Arrays

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Ascending, Attribute, AttributeSet, SortOrder, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.{ClusteredDistribution, Distribution, Partitioning}
import org.apache.spark.sql.execution.BinaryExecNode
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.common.UnsafeRows
import io.tailrace.state.{KeyEncoder, RowMemory}

/** A join of batch DataFrames. Spark shuffles both sides and sorts them by key and time, and spills. One merge joins
  * them, by the rules of the streaming operator, so both give the same rows.
  */
trait BatchJoinExec extends BinaryExecNode {
  def columns: JoinColumns
  def joinOutput: Seq[Attribute]

  /** The settings in `explain`. */
  protected def settingsText: String

  /** Makes the merge of two sorted sides. It goes to the tasks, so it must not refer to the plan. */
  protected def newMerge: BatchJoinExec.NewMerge

  override def output: Seq[Attribute] = joinOutput
  override def producedAttributes: AttributeSet = AttributeSet(joinOutput) -- left.outputSet
  override def simpleString(maxFields: Int): String = s"$nodeName ${columns.keysText}, $settingsText"
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
    val merged = newMerge
    left.execute().zipPartitions(right.execute()) { (leftRows, rightRows) =>
      val task = TaskContext.get()
      val merge = merged(leftRows, rightRows, new RowMemory(SparkState.taskMemoryManager(task)))
      task.addTaskCompletionListener[Unit](_ => merge.close())
      merge.map { row =>
        outputRows += 1
        row
      }
    }
  }
}

object BatchJoinExec {
  type NewMerge = (
      Iterator[InternalRow],
      Iterator[InternalRow],
      RowMemory
  ) => Iterator[InternalRow] with AutoCloseable
}

/** One sorted input, and its head: the left side's current row, or the right side's next one. */
private[tailrace] final class SortedSide private (
    rows: Iterator[InternalRow],
    attributes: Seq[Attribute],
    keys: KeyEncoder,
    timeOrdinal: Int
) {
  private val unsafe = new UnsafeRows(attributes)
  private var current: UnsafeRow = _
  private var keyLength = 0

  /** True if there is a head; reads it if need be. */
  def hasHead: Boolean = current != null || rows.hasNext && {
    current = unsafe(rows.next())
    keyLength = keys.encode(current)
    true
  }
  def dropHead(): Unit = current = null

  def head: UnsafeRow = current
  def time: Long = current.getLong(timeOrdinal)
  def canMatch: Boolean = keyLength > 0 && hasTime
  def hasTime: Boolean = !current.isNullAt(timeOrdinal)
  def copyKey(): Array[Byte] = Arrays.copyOf(keys.bytes, keyLength)
  def compareKey(key: Array[Byte]): Int =
    Arrays.compareUnsigned(keys.bytes, 0, keyLength, key, 0, key.length)
}

private[tailrace] object SortedSide {
  def left(rows: Iterator[InternalRow], columns: JoinColumns): SortedSide =
    new SortedSide(rows, columns.left, columns.leftKeyEncoder(), columns.leftTimeOrdinal)

  def right(rows: Iterator[InternalRow], columns: JoinColumns): SortedSide =
    new SortedSide(rows, columns.right, columns.rightKeyEncoder(), columns.rightTimeOrdinal)
}
