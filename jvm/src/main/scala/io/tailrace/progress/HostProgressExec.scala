package io.tailrace.progress

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}
import org.apache.spark.sql.tailrace.StreamingBatch
import org.apache.spark.util.CollectionAccumulator

import io.tailrace.common.Errors

/** Notes for each host how far its log has been read, and lets all rows pass.
  *
  * {{{
  *   rows ──> HostMaxima of the task ──(accumulator)──> SourceWatermark on the driver ──> LowWatermarkExec
  *     └───> next operator
  * }}}
  *
  * One of Spark's nodes that collect metrics, for these reach the query's progress: `observedMetrics` has, by the name of
  * the source, what [[SourceWatermark.metrics]] gives.
  */
final class HostProgressExec(name: String, columns: Seq[NamedExpression], child: SparkPlan)(
    // Spark sends nodes to executors along with others', and a roster may be long.
    @transient val settings: ProgressSettings,
    val flag: Option[Attribute]
) extends CollectMetricsExec(name, columns, child) {
  private def host: NamedExpression = columns.head
  private def time: NamedExpression = columns(1)
  private def eventTime: NamedExpression = columns(2)
  private def share: Option[NamedExpression] = columns.lift(3)

  override def output: Seq[Attribute] = child.output ++ flag
  override def producedAttributes: AttributeSet = AttributeSet(flag)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def nodeName: String = "HostProgress"

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "lateRows" -> SQLMetrics.createMetric(sparkContext, "rows behind the watermark"),
    "futureRows" -> SQLMetrics.createMetric(sparkContext, "rows ahead of the clock")
  )

  // The source keeps what Spark's node would keep in an accumulator of its own.
  @transient private lazy val source = SourceWatermarks.of(session, settings)

  override def collectedMetrics: Row = source.metrics
  override def resetMetrics(): Unit = metrics.values.foreach(_.reset())

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val batch = StreamingBatch.current(session)
    val run = new HostProgressPartition(
      ProgressColumns(at(host), at(time), at(eventTime), share.map(at)),
      child.output,
      FutureRule(settings, batch.clockMs),
      source.lateThrough(batch.batchId, batch.clockMs),
      flag.isDefined,
      source.collect(batch.batchId, batch.clockMs),
      metrics
    )
    rows.mapPartitions(run)
  }

  private def at(column: NamedExpression): Int = child.output.indexWhere(_.exprId == column.exprId)

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(settings, flag)
  override def canEqual(other: Any): Boolean = other.isInstanceOf[HostProgressExec]
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
  override protected def withNewChildInternal(newChild: SparkPlan): CollectMetricsExec =
    new HostProgressExec(name, columns, newChild)(settings, flag)
}

/** @param limit  the furthest event time that is believed, in microseconds */
private[progress] final case class FutureRule(limit: Long, action: OnFuture)

private[progress] object FutureRule {
  def apply(settings: ProgressSettings, clockMs: Long): FutureRule =
    FutureRule(
      settings.futureLimitMicros.fold(Long.MaxValue)(micros => Math.addExact(clockMs * 1000, micros)),
      settings.onFuture
    )
}

/** Where a row has what is noted of it.
  *
  * @param host      whose log the row is from; or the partition of a stamped topic
  * @param time      how far that log has been read: the event time; or the low watermark of a stamp
  * @param eventTime what is late or not
  * @param share     the completeness of a stamp, in its units
  */
private[progress] final case class ProgressColumns(host: Int, time: Int, eventTime: Int, share: Option[Int])

/** One task. A function by inheritance: Spark need not look for closures in it.
  *
  * @param lateThrough rows of this time or before are late, in microseconds
  */
private[progress] final class HostProgressPartition(
    in: ProgressColumns,
    columns: Seq[Attribute],
    future: FutureRule,
    lateThrough: Long,
    flagged: Boolean,
    progress: CollectionAccumulator[Array[Byte]],
    metrics: Map[String, SQLMetric]
) extends (Iterator[InternalRow] => Iterator[InternalRow])
    with Serializable {

  override def apply(rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val maxima = new HostMaxima
    var passed = 0L
    // However the task ends: a sink that takes no more rows, as a limit does, has taken those before.
    TaskContext.get().addTaskCompletionListener[Unit] { _ =>
      if (passed > 0) progress.add(maxima.toBytes)
      metrics("numOutputRows") += passed
      metrics("lateRows") += maxima.late
      metrics("futureRows") += maxima.future
    }
    val mark = marker()
    rows.map { row =>
      passed += 1
      mark(row, judge(row, maxima))
    }
  }

  /** @return whether the row is ahead of the clock */
  private def judge(row: InternalRow, maxima: HostMaxima): Boolean = {
    if (!row.isNullAt(in.eventTime) && row.getLong(in.eventTime) <= lateThrough) maxima.late += 1
    if (in.share.isDefined) {
      readStamp(row, maxima)
      false
    } else if (row.isNullAt(in.time)) false
    else readTime(row, row.getLong(in.time), maxima)
  }

  private def readTime(row: InternalRow, time: Long, maxima: HostMaxima): Boolean =
    if (row.isNullAt(in.host)) time > future.limit
    else {
      val host = row.getUTF8String(in.host)
      if (time <= future.limit) {
        maxima.see(host, time)
        false
      } else {
        future.action match {
          case OnFuture.Clamp => maxima.see(host, future.limit)
          case OnFuture.Divert =>
          case OnFuture.Fail => throw Errors.watermarkFuture(host.toString, time, future.limit)
        }
        maxima.seeFuture(host)
        true
      }
    }

  /** A partition without a stamp yet is waited for. */
  private def readStamp(row: InternalRow, maxima: HostMaxima): Unit =
    if (!row.isNullAt(in.host)) {
      maxima.see(
        row.getUTF8String(in.host),
        if (row.isNullAt(in.time)) HostTable.Never else row.getLong(in.time)
      )
      in.share.filterNot(row.isNullAt).foreach(i => maxima.share = Math.min(maxima.share, row.getLong(i)))
    }

  private def marker(): (InternalRow, Boolean) => InternalRow =
    if (!flagged) (row, _) => row
    else {
      val toUnsafe = UnsafeProjection.create(columns, columns)
      val joiner = GenerateUnsafeRowJoiner.create(
        DataTypeUtils.fromAttributes(columns),
        ProgressSettings.FlagSchema
      )
      val flags = UnsafeProjection.create(ProgressSettings.FlagSchema)
      val no = flags(InternalRow(false)).copy()
      val yes = flags(InternalRow(true)).copy()
      (row, isFuture) => {
        val unsafe = row match {
          case same: UnsafeRow => same
          case other => toUnsafe(other)
        }
        joiner.join(unsafe, if (isFuture) yes else no)
      }
    }
}
