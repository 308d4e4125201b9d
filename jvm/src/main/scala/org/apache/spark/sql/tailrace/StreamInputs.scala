package org.apache.spark.sql.tailrace

import java.util.Locale

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.json4s.JsonAST.{JArray, JField, JInt, JObject}
import org.json4s.jackson.JsonMethods

/** The sources below a node of a query's plan. For the query's thread only. */
final class StreamInputs private (execution: StreamExecution, relations: Seq[LogicalPlan]) {

  private def streams: Seq[SparkDataStream] = relations.collect {
    case v1: StreamingExecutionRelation => v1.source
    case v2: StreamingDataSourceV2ScanRelation => v2.stream
  }

  /** Names of the inputs. Two queries with the same input have a name in common. */
  def names: Seq[String] = relations.flatMap {
    // Tables have no name. No two queries read the same history, because each backfills its own live streams.
    case history if FrameStream.isIn(history) => Seq(s"history of the query ${execution.id}")
    case v1: StreamingExecutionRelation => Seq(StreamInputs.name(v1.source))
    case v2: StreamingDataSourceV2ScanRelation =>
      val options = StreamInputs.options(v2)
      options.get("kafka.bootstrap.servers") match {
        case Some(servers) =>
          topics(options, v2.stream).map(t => s"kafka:${StreamInputs.sorted(servers)}/$t")
        case None => Seq(StreamInputs.name(v2.stream))
      }
    case _ => Nil // a table that is read again with each batch
  }.distinct

  /** The inputs, for people: kinds of sources, and topics. No paths and no options, which may be secret. */
  def words: Seq[String] = relations.flatMap {
    case v1: StreamingExecutionRelation => Seq(StreamInputs.kind(v1.source))
    case v2: StreamingDataSourceV2ScanRelation => Seq(kafka(v2).getOrElse(StreamInputs.kind(v2.stream)))
    case _ => Nil
  }.distinct

  private def kafka(v2: StreamingDataSourceV2ScanRelation): Option[String] = {
    val options = StreamInputs.options(v2)
    Option.when(options.contains("kafka.bootstrap.servers")) {
      val names = topics(options, v2.stream).map(_.takeWhile(_ != '/')).distinct
      if (names.isEmpty) "Kafka" else s"Kafka: ${names.mkString(", ")}"
    }
  }

  /** Topics by the options of Kafka's source, with the partition if the option names partitions. */
  private def topics(options: Map[String, String], stream: SparkDataStream): Seq[String] = {
    val assigned = options.get("assign").map(StreamInputs.partitions)
    val subscribed = options.get("subscribe").map(KafkaJson.subscribed)
    // The topics of a pattern are known when there are offsets.
    def offsets = execution.availableOffsets.get(stream).map(_.json)
    def found = offsets.flatMap(KafkaJson.topics).toSeq.flatten.map(_._1)
    assigned.orElse(subscribed).getOrElse(found)
  }

  /** True if the batch that runs, or that Spark is making, has new rows. */
  def hasNew: Boolean = {
    val context = execution.getLatestExecutionContext()
    streams.exists { stream =>
      val end = context.endOffsets.get(stream).map(_.json)
      end.isDefined && end != context.startOffsets.get(stream).map(_.json)
    }
  }

  /** True if the batch that Spark is making has new rows, or a source reports that it has more. */
  def hasMore: Boolean = hasNew || {
    val context = execution.getLatestExecutionContext()
    streams.exists { stream =>
      val latest = StreamInputs.latest(execution, stream).map(_.json)
      latest.isDefined && latest != context.endOffsets.get(stream).map(_.json)
    }
  }

  /** True if the batch leaves rows for later ones that were there when it was made. True, too, if the source
    * reads only a part of the available rows and doesn't report the rest.
    */
  def hasUnread: Boolean = streams.exists(isUnread)

  private def isUnread(stream: SparkDataStream): Boolean = {
    val context = execution.getLatestExecutionContext()
    val latest = StreamInputs.latest(execution, stream).map(_.json)
    val end = context.endOffsets.get(stream).filter(_ != null).map(_.json)
    stream match {
      case _ if latest.isDefined => latest != end
      case limited: SupportsAdmissionControl =>
        (limited.getDefaultReadLimit, stream) match {
          case (_: ReadAllAvailable, _) => false
          case (most: ReadMaxFiles, _) => StreamInputs.files(context.newData.get(stream)) >= most.maxFiles
          case (_, files: FileStreamSource) => StreamInputs.leftOver(files)
          case _ => true
        }
      case _ => false
    }
  }
}

object StreamInputs {

  /** @param isNode whether it is the node; a DataFrame that is used twice has several, of the same sources */
  def below(session: SparkSession, isNode: LogicalPlan => Boolean): StreamInputs = {
    val execution = StreamingRun.execution(session)
    val nodes = execution.logicalPlan.collect { case node if isNode(node) => node }
    new StreamInputs(execution, nodes.flatMap(_.collectLeaves()))
  }

  /** The offset up to which a stream could have been read when the batch of this thread was made. None if the
    * source doesn't report it, or Spark hasn't requested it: a batch that runs again was made by an earlier start.
    * Kafka's source fails if the request comes before Spark's own.
    */
  def latest(session: SparkSession, stream: SparkDataStream): Option[Offset] =
    latest(StreamingRun.execution(session), stream)

  private def latest(execution: StreamExecution, stream: SparkDataStream): Option[Offset] =
    execution.getLatestExecutionContext().latestOffsets.get(stream).filter(_ != null)

  /** The node that reads a table of ours as a stream, in a query that isn't started yet. */
  def relation(table: Table, output: Seq[AttributeReference]): LogicalPlan = {
    val options = CaseInsensitiveStringMap.empty()
    val relation = new StreamingRelationV2(None, table.name(), table, options, output, None, None, None)
    SourceNames.named(relation, table.name())
  }

  /** All that the query reads. */
  def all(session: SparkSession): StreamInputs = {
    val execution = StreamingRun.execution(session)
    new StreamInputs(execution, execution.logicalPlan.collectLeaves())
  }

  private def options(v2: StreamingDataSourceV2ScanRelation): Map[String, String] =
    v2.relation.options.asCaseSensitiveMap.asScala.map { case (k, v) =>
      k.toLowerCase(Locale.ROOT) -> v
    }.toMap

  private def kind(stream: SparkDataStream): String = stream match {
    case _: FileStreamSource => "files"
    case other => other.getClass.getSimpleName
  }

  private val FileSource = """FileStreamSource\[(.*)\]""".r

  private def name(stream: SparkDataStream): String = stream.toString match {
    case FileSource(uri) => uri // with its scheme, for instance file:/logs
    case other => other
  }

  private def sorted(servers: String): String =
    servers.split(",").map(_.trim.toLowerCase(Locale.ROOT)).filter(_.nonEmpty).sorted.mkString(",")

  private def partitions(assign: String): Seq[String] = KafkaJson.topics(assign).toSeq.flatten.flatMap {
    case (topic, JArray(numbers)) => numbers.collect { case JInt(number) => s"$topic/$number" }
    case (topic, _) => Seq(topic)
  }

  private def files(newData: Option[LogicalPlan]): Int =
    newData.toSeq
      .flatMap(_.collect { case LogicalRelation(files: HadoopFsRelation, _, _, _, _) => files })
      .map(_.location.inputFiles.length)
      .sum

  /** True if the source has listed files that it hasn't read. Spark has no method for it. */
  private def leftOver(source: FileStreamSource): Boolean = {
    val field = classOf[FileStreamSource].getDeclaredField("unreadFiles")
    field.setAccessible(true)
    field.get(source) match {
      case files: Seq[_] => files.nonEmpty
      case _ => false
    }
  }
}

/** The topics and offsets of Spark's Kafka source, as its options write them: `{"clicks":{"0":17,"1":0}}`.
  * Text that the source can't read gives none here: the source itself refuses it, with Spark's error.
  */
object KafkaJson {

  /** @return the value of each topic; none if the text has another form */
  def topics(json: String): Option[List[JField]] =
    try Some(JsonMethods.parse(json)).collect { case JObject(fields) => fields }
    catch { case NonFatal(_) => None }

  /** The topics of the option `subscribe`. */
  def subscribed(text: String): Seq[String] = text.split(',').map(_.trim).filter(_.nonEmpty).toSeq
}
