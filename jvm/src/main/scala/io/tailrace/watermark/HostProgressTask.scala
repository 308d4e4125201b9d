package io.tailrace.watermark

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.unsafe.types.UTF8String

import io.tailrace.common.{Mark, MarkedRows, Policy, UnsafeRows}
import io.tailrace.driver.{PartitionAccumulator, PartitionValue, SparkWatermark}

/** The rule for rows ahead of the clock.
  *
  * @param limit the latest event time that counts, in microseconds
  */
private[watermark] final case class FutureRule(limit: Long, action: Policy)

private[watermark] object FutureRule {
  def apply(settings: ProgressSettings, clockMs: Long): FutureRule =
    FutureRule(
      Policy.believedThrough(settings.futureLimitMicros, clockMs),
      settings.onFuture
    )
}

/** Opens the tasks of a batch.
  *
  * @param lateThrough rows of this time or before are late, in microseconds
  * @param progress    brings what they have seen to the driver
  */
private[watermark] final class HostProgressTasks(
    future: FutureRule,
    lateThrough: Long,
    progress: PartitionAccumulator[TaskProgress],
    metrics: Map[String, SQLMetric]
) extends Serializable {

  /** Begins a task. It reports however it ends: a limit, which takes no more rows, has taken those before.
    *
    * @param partition of the node
    */
  def open(partition: Int): HostProgressTask = {
    val task = new HostProgressTask(future, lateThrough)
    TaskContext.get().addTaskCompletionListener[Unit] { _ =>
      // Even without rows: the driver must know that the task has run.
      progress.add(partition -> TaskProgress(task.passed, task.maxima.toBytes))
      metrics("numOutputRows") += task.passed
      metrics("lateRows") += task.maxima.late
      metrics("futureRows") += task.maxima.future
    }
    task
  }
}

/** The observations of a task, as they are sent to the driver. Of two runs over a partition the one with
  * fewer rows has stopped earlier.
  *
  * @param bytes of a [[HostMaxima]]
  */
private[watermark] final case class TaskProgress(rows: Long, bytes: Array[Byte])
    extends PartitionValue[TaskProgress] {
  override def max(other: TaskProgress): TaskProgress = if (other.rows > rows) other else this
}

/** One task. Generated code or [[HostProgressPartition]] calls it for each row. */
private[watermark] final class HostProgressTask(future: FutureRule, lateThrough: Long) {
  val maxima = new HostMaxima

  /** The number of rows. */
  var passed = 0L

  private val furthest = future.limit

  /** To be called first for each row. */
  def pass(withoutTime: Boolean, eventTime: Long): Unit = {
    passed += 1
    if (eventTime <= lateThrough && !withoutTime) maxima.late += 1
  }

  /** Notes a row of a host.
    *
    * @param host may be null
    * @param time how far the host's log has been read, in microseconds
    * @return whether the row is ahead of the clock
    */
  def read(host: UTF8String, time: Long): Boolean =
    if (time > furthest) readFuture(host, time)
    else {
      if (host != null) maxima.see(host, time)
      false
    }

  private def readFuture(host: UTF8String, time: Long): Boolean = {
    if (host != null) {
      future.action match {
        case Policy.Clamp => maxima.see(host, future.limit)
        case Policy.Fail => throw WatermarkErrors.future(host.toString, time, future.limit)
        // The row comes out marked and doesn't move its host.
        case _ =>
      }
      maxima.seeFuture(host)
    }
    true
  }

  /** Notes a row with a stamp. The watermark waits for partitions without a stamp.
    *
    * @param partition may be null
    * @param low       of its stamp, [[SparkWatermark.Never]] without one
    * @param share     of its stamp, the whole without one
    * @return whether the stamp is ahead of the clock
    */
  def stamp(partition: UTF8String, low: Long, share: Long): Boolean = {
    if (partition != null && share < maxima.share) maxima.share = share
    read(partition, low)
  }
}

/** The ordinals of the columns that are read.
  *
  * @param host      the log's host, or the partition of a stamped topic
  * @param time      the event time, or the low watermark of a stamp: how far the log has been read
  * @param eventTime decides which rows are late
  * @param share     the completeness of a stamp, in its units
  */
private[watermark] final case class ProgressColumns(host: Int, time: Int, eventTime: Int, share: Option[Int])

/** One task without generated code. It extends a function type, so that Spark doesn't search it for closures.
  *
  * @param marks whether the column `_mark` says which rows are ahead of the clock
  */
private[watermark] final class HostProgressPartition(
    tasks: HostProgressTasks,
    in: ProgressColumns,
    columns: Seq[Attribute],
    marks: Boolean
) extends ((Int, Iterator[InternalRow]) => Iterator[InternalRow])
    with Serializable {

  override def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val task = tasks.open(partition)
    val mark = marker()
    rows.map(row => mark(row, note(row, task)))
  }

  private def note(row: InternalRow, task: HostProgressTask): Boolean = {
    val host = if (row.isNullAt(in.host)) null else row.getUTF8String(in.host)
    def or(column: Int, none: Long): Long = if (row.isNullAt(column)) none else row.getLong(column)
    task.pass(row.isNullAt(in.eventTime), or(in.eventTime, 0L))
    in.share match {
      case Some(share) =>
        task.stamp(host, or(in.time, SparkWatermark.Never), or(share, WatermarkStamp.WholeShare))
      case None => !row.isNullAt(in.time) && task.read(host, row.getLong(in.time))
    }
  }

  private def marker(): (InternalRow, Boolean) => InternalRow =
    if (!marks) (row, _) => row
    else {
      val toUnsafe = new UnsafeRows(columns)
      val marked = new MarkedRows(columns)
      (row, isFuture) => if (isFuture) marked(toUnsafe(row), Mark.Future) else marked.ordinary(toUnsafe(row))
    }
}
