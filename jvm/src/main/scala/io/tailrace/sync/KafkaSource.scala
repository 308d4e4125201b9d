package io.tailrace.sync

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Cast, NamedExpression}
import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, UnionExec}
import org.apache.spark.sql.tailrace._
import org.json4s.JsonAST.{JField, JInt, JObject}
import org.json4s.jackson.JsonMethods

import io.tailrace.common.JoinedNames

/** The source of a side after a batch.
  *
  * @param listed    its partitions; none: it can't list them
  * @param hasUnread whether it has records that the batch has left for later ones
  */
private[sync] final case class SideSource(listed: Option[Seq[ListedPartition]], hasUnread: Boolean)

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
  def of(session: SparkSession, join: String): SyncSide => SideSource = {
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
        if (topics.size > 1) throw SyncErrors.topicsMerged(node.settings.name, node.side.name, topics)
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

/** A partition of a topic. */
private[sync] final case class KafkaPartition(topic: String, number: Int)

private[sync] object KafkaPartition {

  /** The columns of Kafka's source. */
  val Columns: Seq[String] = Seq("topic", "partition")

  /** True if columns are Kafka's own. */
  def isOf(columns: Seq[String]): Boolean = columns.forall(Columns.contains)
}

/** The offsets of Spark's Kafka source, the first that isn't read: `{"clicks":{"0":17,"1":0}}`. */
private[sync] object KafkaOffsets {

  /** @return none if the text is something else */
  def parse(json: String): Option[Map[KafkaPartition, Long]] =
    KafkaJson.topics(json).flatMap { topics =>
      val all = topics.flatMap {
        case (topic, JObject(partitions)) =>
          partitions.map {
            case (number, JInt(offset)) if offset.isValidLong =>
              number.toIntOption.map(n => KafkaPartition(topic, n) -> offset.toLong)
            case _ => None
          }
        case _ => Seq(None)
      }
      Option.when(all.nonEmpty && all.forall(_.isDefined))(all.flatten.toMap)
    }

  /** The text, as the source writes it. */
  def json(offsets: Map[KafkaPartition, Long]): String = {
    val topics = offsets.toSeq.groupBy(_._1.topic).toSeq.sortBy(_._1).map { case (topic, partitions) =>
      val ends = partitions.map { case (p, offset) => p.number -> offset }.sortBy(_._1)
      JField(topic, JObject(ends.toList.map { case (n, offset) => JField(n.toString, JInt(offset)) }))
    }
    JsonMethods.compact(JObject(topics.toList))
  }

  /** Ends of a batch that reads at most `most` records, each partition in proportion to what it has.
    *
    * {{{
    *   most 10   from 0: 100, 1: 100   to 0: 130, 1: 110   ->   0: 107, 1: 102
    * }}}
    */
  def within(
      from: Map[KafkaPartition, Long],
      to: Map[KafkaPartition, Long],
      most: Long
  ): Map[KafkaPartition, Long] = {
    val counts = to.map { case (partition, end) => partition -> (end - from.getOrElse(partition, end)) }
    val all = counts.values.filter(_ > 0).sum
    if (all <= most) to
    else {
      val shared = counts.map { case (p, count) => p -> (Math.max(0L, count).toDouble / all * most).toLong }
      // Rounding must not leave a batch without a record.
      val read = if (shared.values.sum > 0) shared else shared + (counts.maxBy(_._2)._1 -> 1L)
      to.map { case (p, end) => p -> (if (counts(p) > 0) end - counts(p) + read(p) else end) }
    }
  }

  /** True if a partition is among these names, made of `partition` alone or of `topic` and `partition`. */
  def isAmong(partition: KafkaPartition, names: Set[String]): Boolean = {
    val number = partition.number.toString
    names(number) || names(PartitionNames.of(Seq(partition.topic, number)))
  }
}

/** Names of source partitions, made of the values of their columns. No two partitions have the same name.
  *
  * {{{
  *   clicks, 7         ->  clicks-7            as Kafka's tools name them
  *   eu-west, 1        ->  eu-west-1
  *   eu, west-1        ->  eu-west%2D1         a value after the first column never contains `-`
  *   null              ->  %
  * }}}
  */
private[sync] object PartitionNames {
  private val Null = "%"

  /** @param values of the columns, in their order; null where a row has none */
  def of(values: Seq[String]): String =
    (first(values.head) +: values.tail.map(further)).mkString(JoinedNames.Separator)

  // Names of topics and of hosts stay as they are.
  private def first(value: String): String =
    if (value == null) Null else if (value.startsWith(Null)) s"$Null$value" else value

  private def further(value: String): String =
    if (value == null) Null else JoinedNames.further(value)

  /** The name in files of format 1, which several partitions may have shared. */
  def formerly(values: Seq[String]): String = values.map(String.valueOf(_)).mkString("-")
}
