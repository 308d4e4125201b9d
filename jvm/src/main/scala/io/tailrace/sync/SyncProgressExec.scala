package io.tailrace.sync

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{
  BinaryExecNode,
  ProjectExec,
  SparkPlan,
  SparkStrategy,
  UnaryExecNode,
  UnionExec
}
import org.apache.spark.sql.tailrace._
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.common.{Policy, Side}
import io.tailrace.driver._

/** Notes how far each source partition of a side has been read. All rows pass.
  *
  * It has no generated code: the exchange above it needs whole rows anyway.
  *
  * @param partitions columns whose values tell partitions apart
  * @param time       the side's event time, in microseconds
  */
final case class SyncProgressExec(
    side: Side,
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
    case Policy.Fail => throw SyncErrors.future(begun.side, reading.name, time, begun.believed)
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

/** Lists the partitions of a join's sources. Kafka's can list them, if the partition columns are its own.
  *
  * {{{
  *   SyncProgressExec [t, p] ── Project [topic AS t, partition AS p] ── scan up to {"clicks":{"0":17,"1":0}}
  *   clicks-0, clicks-1
  * }}}
  *
  * A source with nothing new isn't in the plan of a batch. Then nothing has changed.
  */
private[sync] object KafkaSource {

  /** The sources of the batch that has just run in this thread.
    *
    * @param join its name
    */
  def of(session: SparkSession, join: String): Side => SideSource = {
    // A batch that has been folded asks for no side.
    lazy val nodes = StreamingPlan.nodes(StreamingBatch.running(session).plan).collect {
      case node: SyncProgressExec if node.settings.name == join => node
    }
    side => {
      val inputs = StreamInputs.below(
        session,
        {
          case progress: SyncProgress => progress.side == side && progress.settings.name == join
          case _ => false
        }
      )
      SideSource(nodes.find(_.side == side).flatMap(listed), inputs.hasUnread)
    }
  }

  def listed(node: SyncProgressExec): Option[Seq[ListedPartition]] = {
    val origins = node.partitions.map(origin(_, node.child))
    val scans = origins.flatten.map(_._1).distinct
    if (origins.exists(_.isEmpty) || scans.size != 1) None
    else {
      val columns = origins.flatten.map(_._2.name)
      val scan = scans.head
      val from = Option(scan.start).flatMap(offsets).getOrElse(Map.empty)
      val latest = StreamInputs.latest(node.session, scan.stream).flatMap(offsets)
      Option(scan.end).flatMap(offsets).filter(_ => KafkaPartition.isOf(columns)).map { read =>
        read.toSeq
          .map { case (partition, end) =>
            val unread = latest.flatMap(_.get(partition)).map(all => Math.max(0L, all - end))
            val isRead = from.get(partition).exists(_ < end)
            ListedPartition(nameOf(partition, columns), unread, isRead = isRead)
          }
          .sortBy(_.name)
      }
    }
  }

  /** Refuses a side that reads several topics of Kafka and tells partitions apart by `partition` only.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_SYNC_TOPICS_MERGED
    */
  def check(node: SyncProgressExec): Unit = {
    node.partitions.map(origin(_, node.child)) match {
      case Seq(Some((scan, column))) if column.name == "partition" =>
        val topics = Option(scan.end).flatMap(offsets).toSeq.flatMap(_.keys).map(_.topic).distinct.sorted
        if (topics.size > 1) throw SyncErrors.topicsMerged(node.settings.name, node.side, topics)
      case _ =>
    }
  }

  private def nameOf(partition: KafkaPartition, columns: Seq[String]): String =
    PartitionNames.of(columns.map {
      case "topic" => partition.topic
      case _ => partition.number.toString
    })

  private def offsets(offset: Offset): Option[Map[KafkaPartition, Long]] = KafkaOffsets.parse(offset.json)

  /** The scan that a column comes from, and the column there. */
  private def origin(column: Attribute, plan: SparkPlan): Option[(MicroBatchScanExec, Attribute)] =
    plan match {
      case scan: MicroBatchScanExec => scan.output.find(_.exprId == column.exprId).map(scan -> _)
      case project: ProjectExec =>
        project.projectList.find(_.exprId == column.exprId).flatMap(source).flatMap(origin(_, project.child))
      // A union has the columns of its first side, and the partitions of all sides.
      case _: UnionExec => None
      case other =>
        StreamingPlan.inputs(other).filter(_.outputSet.contains(column)).flatMap(origin(column, _)).headOption
    }

  private def source(named: NamedExpression): Option[Attribute] = named match {
    case column: Attribute => Some(column)
    case Alias(column: Attribute, _) => Some(column)
    case Alias(Cast(column: Attribute, _, _, _), _) => Some(column)
    case _ => None
  }
}

/** It keeps no state: under AQE, a stream plans the same nodes several times. */
final class SyncProgressStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case p: SyncProgress =>
      SyncProgressExec(p.side, p.partitions, p.time, p.settings, planLater(p.child)) :: Nil
    // A plan that is shown before there is a query.
    case Synced(side, _) => planLater(side) :: Nil
    case SyncedInQuery(side, end) => SyncedExec(planLater(side), planLater(end)) :: Nil
    case EventTimeWatermark(id, _, _, end: SyncEnd) =>
      SyncEndWatermark(end.settings).node(session, id, end.output.head) :: Nil
    case _ => Nil
  }
}

object SyncProgressStrategy extends (org.apache.spark.sql.SparkSession => SparkStrategy) {
  override def apply(session: org.apache.spark.sql.SparkSession): SparkStrategy =
    new SyncProgressStrategy(session.asInstanceOf[SparkSession])
}

/** Ends a batch on the driver, after its tasks and before Spark commits it. Spark asks only watermark nodes
  * then, so this is one, over no rows. Its watermark is that of the other inputs.
  *
  * {{{
  *   join ── SyncedExec ── SyncProgressExec ── the user's left rows
  *     │         └── ReportExec ── DriverWatermarkExec of SyncEndWatermark
  *     └──── SyncProgressExec ── the user's right rows
  * }}}
  */
private[sync] final case class SyncEndWatermark(settings: SyncSettings) extends DriverWatermark {
  override def nodeName: String = "SyncEnd"
  override def followsOthers: Boolean = true
  override def after(batch: StreamingBatch, session: SparkSession): Option[Long] = {
    val run = SyncRun.of(session, settings)
    run.end(batch.batchId, KafkaSource.of(session, settings.name))
    run.watermark(InputWatermarks.of(session))
  }

  /** The node, below the one that reports the join's progress.
    *
    * @param nodeId    as Spark's tracker of watermarks knows it
    * @param eventTime a column that has no rows
    */
  def node(session: SparkSession, nodeId: UUID, eventTime: Attribute): SparkPlan = {
    val rows = ColumnsOfWatermark(Seq(eventTime))
    val watermark = DriverWatermarkExec(session, nodeId, eventTime, new CalendarInterval(0, 0, 0), rows, this)
    ReportExec(SyncReport.name(settings), watermark) { case _ => SyncRun.of(session, settings).metrics }
  }
}

/** The operator of [[SyncedInQuery]]: the node that ends a batch is never executed. */
final case class SyncedExec(left: SparkPlan, right: SparkPlan) extends BinaryExecNode {
  override def nodeName: String = "Synced"
  override def output: Seq[Attribute] = left.output
  override def outputPartitioning: Partitioning = left.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = left.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = left.execute()

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): SyncedExec =
    copy(left = newLeft, right = newRight)
}
