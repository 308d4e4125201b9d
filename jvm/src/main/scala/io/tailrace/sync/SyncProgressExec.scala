package io.tailrace.sync

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.StreamingBatch
import org.apache.spark.sql.types.StringType
import org.apache.spark.util.CollectionAccumulator

import io.tailrace.common.Policy
import io.tailrace.driver.{PartitionAccumulator, PartitionValue}

/** Notes how far each source partition of a side has been read. All rows pass.
  *
  * It has no generated code: the exchange above it needs whole rows anyway.
  *
  * @param partitions columns whose values tell partitions apart
  * @param time       the side's event time, in microseconds
  */
final case class SyncProgressExec(
    side: SyncSide,
    partitions: Seq[Attribute],
    time: Attribute,
    settings: SyncSettings,
    child: SparkPlan
) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "jumpedRows" -> SQLMetrics.createMetric(sparkContext, "rows further back than the sync delay"),
    "lateRows" -> SQLMetrics.createMetric(sparkContext, "rows that came when they were decided"),
    "futureRows" -> SQLMetrics.createMetric(sparkContext, "rows ahead of the clock")
  )

  override protected def doExecute(): RDD[InternalRow] = {
    KafkaSource.check(this)
    val rows = child.execute()
    val batch = StreamingBatch.current(session)
    val begun = SyncRun.of(session, settings).read(side, batch.batchId, batch.clockMs)
    rows.mapPartitionsWithIndex(new SyncProgressPartition(begun, partitions, time, child.output, metrics))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SyncProgressExec = copy(child = newChild)
}

/** The values that the tasks of a side begin a batch with.
  *
  * @param latest       the greatest time of each known partition
  * @param lateBefore   rows before this time are late
  * @param missedBefore rows before this time may have come after their match was decided
  * @param believed     the last event time that isn't too far ahead of the clock
  * @param read         takes what the tasks have read
  */
private[sync] final case class SideTasks(
    side: SyncSide,
    latest: Map[String, Long],
    syncDelay: Long,
    lateBefore: Long,
    missedBefore: Long,
    believed: Long,
    onFuture: Policy,
    read: PartitionAccumulator[TaskRead]
)

/** Runs in one task. It is a class, not a closure, so that Spark doesn't clean it as one. */
private[sync] final class SyncProgressPartition(
    begun: SideTasks,
    partitions: Seq[Attribute],
    time: Attribute,
    columns: Seq[Attribute],
    metrics: Map[String, SQLMetric]
) extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val readings = new PartitionReadings(begun, partitions, columns)
    val at = columns.indexWhere(_.exprId == time.exprId)
    var passed = 0L
    // However the task ends: a sink that stops taking rows, as a limit does, has taken those before.
    TaskContext.get().addTaskCompletionListener[Unit] { _ =>
      val read = readings.read
      if (read.nonEmpty) begun.read.add(partition -> TaskRead(passed, read))
      metrics("numOutputRows") += passed
      metrics("jumpedRows") += read.map(_.jumps).sum
      metrics("lateRows") += read.map(_.late).sum
      metrics("futureRows") += read.map(_.future).sum
    }
    rows.map { row =>
      passed += 1
      if (!row.isNullAt(at)) {
        val time = row.getLong(at)
        if (time <= begun.believed) readings.of(row).see(time) else seeFuture(readings.of(row), time)
      }
      row
    }
  }

  private def seeFuture(reading: PartitionReading, time: Long): Unit = begun.onFuture match {
    case Policy.Clamp => reading.seeFuture(Some(begun.believed))
    case Policy.Fail => throw SyncErrors.future(begun.side.name, reading.name, time, begun.believed)
    case _ => reading.seeFuture(None)
  }
}

/** The partitions that one task reads. Consecutive rows are mostly of the same partition. */
private[sync] final class PartitionReadings(
    begun: SideTasks,
    partitions: Seq[Attribute],
    columns: Seq[Attribute]
) {
  private val byKey = new java.util.HashMap[UnsafeRow, PartitionReading]
  private val keyOf = UnsafeProjection.create(partitions, columns)
  private val names = partitions.zipWithIndex.map { case (column, i) =>
    Cast(BoundReference(i, column.dataType, nullable = true), StringType, Some("UTC"))
  }
  private var lastKey: UnsafeRow = _
  private var last: PartitionReading = _

  def of(row: InternalRow): PartitionReading = {
    val key = keyOf(row)
    if (lastKey == null || key != lastKey) {
      val own = key.copy()
      last = byKey.computeIfAbsent(own, (k: UnsafeRow) => open(k))
      lastKey = own
    }
    last
  }

  private def open(key: UnsafeRow): PartitionReading = {
    val values = names.map(value => Option(value.eval(key)).fold[String](null)(_.toString))
    val name = PartitionNames.of(values)
    val before = begun.latest.getOrElse(name, SyncTimes.Unknown)
    val formerly = Some(PartitionNames.formerly(values)).filter(_ != name)
    new PartitionReading(name, before, begun.syncDelay, begun.lateBefore, begun.missedBefore, formerly)
  }

  /** The progress of all partitions so far. */
  def read: Seq[PartitionRead] = byKey.values.asScala.map(_.read).toSeq
}

/** The part of a side that one task has read. Of two runs of a task, the one with fewer rows stopped sooner.
  *
  * @param rows with and without a time
  */
private[sync] final case class TaskRead(rows: Long, partitions: Seq[PartitionRead])
    extends PartitionValue[TaskRead] {
  override def max(other: TaskRead): TaskRead = if (other.rows > rows) other else this
}

/** Sums up what the tasks of a batch have told the driver. A sink may run a batch's tasks several times. */
private[sync] object SyncReads {

  /** If several tasks have read one partition, the one that has read the most counts. */
  def of(told: Seq[PartitionAccumulator[TaskRead]]): Seq[PartitionRead] =
    told
      .flatMap(_.value)
      .groupMapReduce(_._1)(_._2)(_ max _)
      .values
      .toSeq
      .flatMap(_.partitions)
      .groupMapReduce(_.name)(identity)(plus)
      .values
      .toSeq
      .sortBy(_.name)

  /** A partition may be read by several tasks. */
  private def plus(one: PartitionRead, other: PartitionRead): PartitionRead =
    PartitionRead(
      one.name,
      Math.max(one.latest, other.latest),
      one.rows + other.rows,
      one.jumps + other.jumps,
      one.late + other.late,
      one.future + other.future,
      one.formerly
    )

  /** A state partition tells what it holds when its version is committed: the last one told exists. */
  def held(told: Seq[CollectionAccumulator[SyncHeld]]): Seq[SyncHeld] =
    told.flatMap(_.value.asScala).map(held => held.partition -> held).toMap.values.toSeq
}
