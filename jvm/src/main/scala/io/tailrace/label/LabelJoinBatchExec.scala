package io.tailrace.label

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Ascending, Attribute, AttributeSet, SortOrder, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.{ClusteredDistribution, Distribution, Partitioning}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{BinaryExecNode, SparkPlan}
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.common.{MemoryErrors, RowMemoryExhausted, StepwiseRows, UnsafeRows}
import io.tailrace.join.JoinColumns
import io.tailrace.state.{KeyEncoder, RowMemory}

/** The label join of batch DataFrames. Spark shuffles both sides and sorts them by key and time, and spills; one merge joins
  * them. It shares window, policies and group writer with the streaming operator, so both give the same rows.
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
    // The tasks need these two, and not the plan around them.
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

/** Joins two iterators that are sorted by key and time. Holds the right rows of one key that are in the window of one left
  * row, or the part of them that the group can hold ([[MatchWindow]]). Each row that comes out is valid until the next one.
  */
private[label] final class BatchMerge(
    columns: JoinColumns,
    settings: JoinSettings,
    leftRows: Iterator[InternalRow],
    rightRows: Iterator[InternalRow],
    memory: RowMemory
) extends StepwiseRows[InternalRow]
    with AutoCloseable {
  private val window = settings.window
  private val candidates = new Candidates(memory)
  // One more than comes out, to know whether the group is truncated.
  private val bound = {
    val b = settings.bound
    if (b.policy == MatchPolicy.All && b.isBound) b.copy(most = b.most + 1) else b
  }
  private val matches = new MatchWindow(bound, candidates)

  private val left = new SortedSide(leftRows, columns.left, columns.leftKeyEncoder(), columns.leftTimeOrdinal)
  private val right =
    new SortedSide(rightRows, columns.right, columns.rightKeyEncoder(), columns.rightTimeOrdinal)
  private val payload = columns.payloadProjection()
  private lazy val groups = new GroupWriter(columns, settings, memory)
  private lazy val pairs = new PairWriter(columns, settings)
  private val element = new UnsafeRow(columns.payload.size)

  private var key = new Array[Byte](0)
  private var started = false
  // The matches of the current left row end before `until`. Those before `position` have come out.
  private var position = 0
  private var until = 0
  // The right rows of the key, if a window of them has no room in memory.
  private var onDisk: Option[KeyOnDisk] = None

  /** The right rows of the left row's key. */
  private object rows extends KeyedRows {
    override def isEmpty: Boolean = !right.hasHead || !right.headCanMatch || right.compareHead(key) != 0
    override def time: Long = right.headTime
    override def advance(): Unit = right.dropHead()
    override def addTo(to: Candidates): Unit = {
      val value = payload(right.head)
      to.add(time, value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)
    }
  }

  override protected def step(): InternalRow =
    if (hasPair) nextPair()
    else if (!nextLeft()) {
      end()
      null
    } else if (settings.isGrouped) group()
    else null

  private def hasPair: Boolean = !settings.isGrouped && (position < until || onDisk.exists(_.hasMatch))

  private def nextPair(): InternalRow = onDisk match {
    case Some(disk) => pairs.write(left.row, disk.next(element))
    case None =>
      position += 1
      pairs.write(left.row, candidates.pointTo(element, position - 1))
  }

  private def group(): InternalRow =
    try groups.write(left.row, left.time, candidates, position, until - position, until - position)
    catch { case e: RowMemoryExhausted => throw tooLarge(e) }

  private def tooLarge(e: RowMemoryExhausted): Throwable =
    MemoryErrors.groupTooLarge(candidates.size, candidates.bytes, e)

  /** Takes the next left row and finds its matches. */
  private def nextLeft(): Boolean =
    left.hasNext && {
      left.advance()
      if (left.canMatch) findMatches()
      else {
        until = position
        onDisk.foreach(_.endMatches())
      }
      true
    }

  private def findMatches(): Unit = {
    if (!started || !left.hasKey(key)) {
      started = true
      key = left.copyKey()
      closeDisk()
      while (right.hasHead && (!right.headCanMatch || right.compareHead(key) < 0)) right.dropHead()
      matches.start(rows)
    }
    val (lower, upper) = (window.lowerBound(left.time), window.upperBound(left.time))
    if (onDisk.isEmpty) findInMemory(lower, upper)
    onDisk.foreach(_.slideTo(lower, upper))
  }

  private def findInMemory(lower: Long, upper: Long): Unit =
    try {
      matches.slideTo(left.time, lower, upper)
      position = candidates.first
      until = position + candidates.count
    } catch {
      case e: RowMemoryExhausted =>
        if (settings.isGrouped) throw tooLarge(e)
        onDisk = Some(KeyOnDisk.of(candidates, rows, memory))
        position = 0
        until = 0
    }

  private def closeDisk(): Unit = {
    onDisk.foreach(_.close())
    onDisk = None
  }

  override def close(): Unit = {
    closeDisk()
    candidates.close()
    if (settings.isGrouped) groups.close()
  }
}

/** One sorted input, with key and time of a row: the left side's current row, or the right side's next one. */
private final class SortedSide(
    rows: Iterator[InternalRow],
    attributes: Seq[Attribute],
    keys: KeyEncoder,
    timeOrdinal: Int
) {
  private val unsafe = new UnsafeRows(attributes)
  private var current: UnsafeRow = _
  private var keyLength = 0

  private def take(): Unit = {
    current = unsafe(rows.next())
    keyLength = keys.encode(current)
  }

  def hasNext: Boolean = rows.hasNext
  def advance(): Unit = take()
  def row: UnsafeRow = current
  def time: Long = current.getLong(timeOrdinal)
  def canMatch: Boolean = keyLength > 0 && !current.isNullAt(timeOrdinal)
  def copyKey(): Array[Byte] = java.util.Arrays.copyOf(keys.bytes, keyLength)
  def hasKey(key: Array[Byte]): Boolean = compare(key) == 0

  private def compare(key: Array[Byte]): Int =
    java.util.Arrays.compareUnsigned(keys.bytes, 0, keyLength, key, 0, key.length)

  def hasHead: Boolean = current != null || (rows.hasNext && { take(); true })
  def head: UnsafeRow = current
  def headTime: Long = time
  def headCanMatch: Boolean = canMatch
  def compareHead(key: Array[Byte]): Int = compare(key)
  def dropHead(): Unit = current = null
}
