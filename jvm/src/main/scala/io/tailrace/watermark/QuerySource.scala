package io.tailrace.watermark

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.tailrace.StreamingBatch

/** A source of a query as a sink sees it, when a batch has been read. It goes on telling of its hosts between batches.
  *
  * @param low          all rows before this time have been read, in microseconds, but for those of hosts that lag
  * @param completeness the share of hosts that it asks for, and that its stamps were made with
  */
final class QuerySource private (
    settings: ProgressSettings,
    watermark: SourceWatermark,
    val low: Long,
    val completeness: Completeness
) {
  def name: String = settings.name

  /** Whether its server knows of it, in this start of the query. */
  def isKnownToServer: Boolean = watermark.isKnownToServer

  /** @param through hosts that have been read so far have passed */
  def hosts(through: Long): SourceHosts = {
    val (expected, behind) = watermark.behind(through)
    SourceHosts(name, settings.completeness.toString, expected.toLong, behind)
  }
}

object QuerySource {

  /** The sources whose watermark nodes these are. In the thread of the query, when its tasks have ended: the end of the
    * batch is asked for as Spark does, which gets the same answer after it.
    */
  def of(session: SparkSession, nodes: Seq[EventTimeWatermarkExec]): Seq[QuerySource] = {
    val batch = StreamingBatch.current(session)
    val own = nodes.flatMap(node => LowWatermark.of(node).map(settings => settings -> node))
    own.distinctBy { case (settings, _) => settings.name }.map { case (settings, node) =>
      node.eventTimeStats.value
      val watermark = SourceWatermarks.of(session, settings)
      val low = watermark.low
      new QuerySource(
        settings,
        watermark,
        if (low == HostTable.Never) low else low - settings.delayMs * 1000,
        watermark.completeness(batch.batchId)
      )
    }
  }

  /** How far the source of a node is. */
  def low(node: EventTimeWatermarkExec, sources: Seq[QuerySource]): Long =
    LowWatermark.of(node).flatMap(own => sources.find(_.name == own.name)).fold(HostTable.Never)(_.low)
}

/** Hosts of a source.
  *
  * @param expected how many there are
  * @param behind   those that haven't passed some time, and how far they are: [[HostTable.Never]] if nothing of one has been
  *                 read
  */
final case class SourceHosts(
    source: String,
    completeness: String,
    expected: Long,
    behind: Seq[(String, Long)]
)
