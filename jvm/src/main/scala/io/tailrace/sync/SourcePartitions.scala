package io.tailrace.sync

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Cast, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, UnionExec}
import org.apache.spark.sql.tailrace.{StreamInputs, StreamingBatch, StreamingPlan}

/** A node of a query's plan below which a side of a synced join is read. */
trait ReadsSide extends LogicalPlan {
  def side: SyncSide
  def settings: SyncSettings
}

/** Which partitions the sources of a join have, where they can say: those of Kafka, if the partition columns are its own.
  *
  * {{{
  *   SyncProgressExec [t, p] ── Project [topic AS t, partition AS p, ...] ── scan of Kafka up to {"clicks":{"0":17,"1":0}}
  *   clicks-0, clicks-1
  * }}}
  *
  * A source that has nothing new isn't in the plan of a batch, and then nothing has changed either.
  */
private[sync] object SourcePartitions {

  /** Of the batch that has just run in this thread. */
  def of(session: SparkSession, join: String): SyncSources = new SyncSources {
    private lazy val nodes = StreamingPlan.nodes(StreamingBatch.running(session).plan).collect {
      case node: SyncProgressExec if node.settings.name == join => node
    }

    override def listed(side: SyncSide): Option[Seq[ListedPartition]] =
      nodes.find(_.side == side).flatMap(SourcePartitions.listed)

    override def hasUnread(side: SyncSide): Boolean = StreamInputs
      .below(
        session,
        {
          case reads: ReadsSide => reads.side == side && reads.settings.name == join
          case _ => false
        }
      )
      .hasUnread
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
      Option(scan.end).flatMap(offsets).filter(_ => columns.forall(Columns.contains)).map { read =>
        read.toSeq
          .map { case (partition, end) =>
            val unread = latest.flatMap(_.get(partition)).map(all => Math.max(0L, all - end))
            val isRead = from.get(partition).exists(_ < end)
            ListedPartition(nameOf(partition, columns), unread, isRead = isRead)
          }
          .toSeq
          .sortBy(_.name)
      }
    }
  }

  /** Refuses a side on Kafka whose partitions of several topics would be one.
    *
    * @throws io.tailrace.common.TailraceStateException TAILRACE_SYNC_TOPICS_MERGED
    */
  def check(node: SyncProgressExec): Unit = {
    val origins = node.partitions.map(origin(_, node.child))
    origins match {
      case Seq(Some((scan, column))) if column.name == "partition" =>
        val topics =
          Option(scan.end).flatMap(offsets).toSeq.flatMap(_.keys).map(_.topic).distinct.sorted
        if (topics.size > 1) throw SyncErrors.topicsMerged(node.settings.name, node.side.name, topics)
      case _ =>
    }
  }

  private val Columns = Seq("topic", "partition")

  private def nameOf(partition: KafkaPartition, columns: Seq[String]): String =
    PartitionNames.of(columns.map {
      case "topic" => partition.topic
      case _ => partition.number.toString
    })

  private def offsets(offset: Offset): Option[Map[KafkaPartition, Long]] = KafkaOffsets.parse(offset.json)

  /** The scan that a column comes from, and what it is called there. */
  private def origin(column: Attribute, plan: SparkPlan): Option[(MicroBatchScanExec, Attribute)] =
    plan match {
      case scan: MicroBatchScanExec => scan.output.find(_.exprId == column.exprId).map(scan -> _)
      case project: ProjectExec =>
        project.projectList.find(_.exprId == column.exprId).flatMap(source).flatMap(origin(_, project.child))
      // It has the columns of its first side, and the partitions of all.
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
