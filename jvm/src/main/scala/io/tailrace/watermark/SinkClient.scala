package io.tailrace.watermark

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{EventTimeWatermarkExec, SparkSession, StreamingBatch}

import io.tailrace.common.SparkWatermark
import io.tailrace.watermark.ServerConnection.{isTime, nearest, time}

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

/** A server's answer to a sink: low watermarks in microseconds, none if they aren't known.
  *
  * @param input        of the sink's upstreams
  * @param output       of the sink, as the server knows it
  * @param applications the minimum over all sinks of the application
  */
final case class SinkWord(input: Option[Long], output: Option[Long], applications: Option[Long])

/** The report of a closed window, for a server.
  *
  * @param missing hosts and how far their logs have been read
  */
final case class ToldWindow(
    start: Long,
    end: Long,
    expected: Long,
    passed: Long,
    missing: Seq[(String, Option[Long])],
    lateRows: Long
)

/** Reports a sink's low watermark to a watermark server, and gets that of all sinks.
  *
  * @param reporter none before the sink's query runs: then nothing is reported
  * @param folder   that the sink writes
  */
final class SinkClient(server: ServerSettings, reporter: () => Option[Reporter], folder: String) {
  import SinkClient._

  // Belongs to the reporter's run.
  private var connected = Option.empty[(Reporter, ServerConnection)]

  /** @param low the sink's low watermark, in microseconds. [[SparkWatermark.Never]] is sent as the earliest
    *            time: the server takes a sink without a low watermark to be as far as its upstreams
    * @param upstreams the operators whose rows the sink writes
    * @param batches   the number of micro-batches that have landed; none if it isn't known
    * @return none while the server is away
    */
  def report(
      low: Long,
      upstreams: Seq[String],
      windows: Seq[ToldWindow],
      batches: Option[Long] = None
  ): Option[SinkWord] =
    attempt { (by, connection) =>
      val answer = by.report(connection, body(by, low, upstreams, windows, batches))
      val own = answer.path("operators").path(server.operator)
      SinkWord(
        connection.low(own.path("input_low_watermark")),
        connection.low(own.path("output_low_watermark")),
        connection.low(answer.path("global_low_watermark"))
      )
    }

  private def body(
      by: Reporter,
      low: Long,
      upstreams: Seq[String],
      windows: Seq[ToldWindow],
      batches: Option[Long]
  ): ObjectNode = {
    val root = by.newBody(batches)
    val operator = root.putArray("operators").addObject().put("operator", server.operator).put("kind", "sink")
    // Its folder's name alone: a path may have credentials.
    by.putLabel(operator, s"windows in ${new Path(folder).getName}")
    val above = operator.putArray("upstreams")
    upstreams.foreach(above.add)
    operator.putArray("reads").add(WireName.encode(s"folder:$folder"))
    operator.put("key_groups", 1).putObject("low_watermarks").put("0", nearest(low))
    val told = root.putArray("windows")
    windows.filter(w => isTime(w.start) && isTime(w.end)).foreach { w =>
      val one = told.addObject().put("operator", server.operator).put("start", w.start).put("end", w.end)
      one.put("expected", w.expected).put("passed", w.passed).put("late_rows", w.lateRows)
      val missing = one.putArray("missing")
      w.missing.take(MostMissing).foreach { case (host, progress) =>
        val entry = missing.addObject().put("host", WireName.encode(host))
        progress.filter(isTime).fold(entry.putNull("progress"))(entry.put("progress", _))
      }
    }
    root
  }

  /** The hosts of a source that count, as the server knows them from all queries.
    *
    * @param operator the source's name at the server
    * @param through  hosts that have been read up to here have passed
    * @return none while the server is away
    */
  def hosts(operator: String, source: ProgressSettings, through: Long): Option[SourceHosts] = attempt {
    (_, connection) =>
      val topology = connection.read("").path("topology").elements.asScala
      val known = topology.find(_.path("operator").asText == operator)
      val expected = known.map(_.path("hosts").asLong).getOrElse(0L)
      SourceHosts(
        source.name,
        source.completeness.toString,
        expected,
        behind(connection, operator, through, 0)
      )
  }

  private def behind(
      connection: ServerConnection,
      operator: String,
      through: Long,
      offset: Int
  ): Seq[(String, Long)] = {
    val name = WireName.inUrl(operator)
    val page = connection.read(s"/hosts?operator=$name&limit=$PageLength&offset=$offset")
    def progress(host: JsonNode) = time(host.path("progress")).getOrElse(SparkWatermark.Never)
    val before = page.path("hosts").elements.asScala.filter(progress(_) < through).toSeq
    val counting = before
      .filterNot(h => NotCounting(h.path("state").asText))
      .map(h => WireName.decode(h.path("host").asText) -> progress(h))
    // The server sorts them: the slowest come first.
    val isLast = before.size < PageLength || offset + PageLength > LastOffset
    if (isLast) counting else counting ++ behind(connection, operator, through, offset + PageLength)
  }

  private def attempt[T](request: (Reporter, ServerConnection) => T): Option[T] =
    reporter().flatMap { by =>
      val connection = connected.collect { case (`by`, known) => known }.getOrElse(by.newConnection(server))
      connected = Some(by -> connection)
      val meanwhile = "No window closes until it is back; rows go on landing"
      connection.attempt(meanwhile)(request(by, connection))
    }
}

object SinkClient {

  /** The most windows in one report. */
  val MostWindows = 200

  private val MostMissing = 1000
  private val PageLength = 1000
  private val LastOffset = 100000
  private val NotCounting = Set("excluded", "idle", "not in roster")
}

/** A source of a query after a batch, for the query's sink. The sink asks for hosts between batches too.
  *
  * @param low          all rows before this time have been read, except those of hosts that lag, in
  *                     microseconds
  * @param completeness the share of hosts that the source waits for, times that of its stamps
  */
final class QuerySource private (
    settings: ProgressSettings,
    watermark: SourceWatermark,
    val low: Long,
    val completeness: Completeness
) {
  def name: String = settings.name

  /** True if the server knows this run's source. */
  def isKnownToServer: Boolean = watermark.isKnownToServer

  /** @param through hosts that have been read up to here have passed */
  def hosts(through: Long): SourceHosts = {
    val (expected, behind) = watermark.behind(through)
    SourceHosts(name, settings.completeness.toString, expected.toLong, behind)
  }
}

object QuerySource {

  /** The sources of watermark nodes. Must be called in the query's thread when its tasks have ended, because
    * it ends the batch for the sources. Spark ends the batch again later, and gets the same result.
    */
  def of(session: SparkSession, nodes: Seq[EventTimeWatermarkExec]): Seq[QuerySource] = {
    val batch = StreamingBatch.current(session)
    val own = nodes.flatMap(node => WatermarkOfSource.settings(node).map(_ -> node))
    own.distinctBy(_._1.name).map { case (settings, node) =>
      node.eventTimeStats.value // ends the batch
      val watermark = SourceWatermark.of(session, settings)
      val read = watermark.low
      val low = if (read == SparkWatermark.Never) read else read - settings.delayMs * 1000
      new QuerySource(settings, watermark, low, watermark.completeness(batch.batchId))
    }
  }

  /** The low watermark of a node's source. */
  def low(node: EventTimeWatermarkExec, sources: Seq[QuerySource]): Long =
    WatermarkOfSource
      .settings(node)
      .flatMap(own => sources.find(_.name == own.name))
      .fold(SparkWatermark.Never)(_.low)
}

/** The hosts of a source, with regard to a time.
  *
  * @param expected the number of hosts
  * @param behind   hosts that haven't passed the time, and how far they are; [[SparkWatermark.Never]] if no
  *                 row has been read
  */
final case class SourceHosts(
    source: String,
    completeness: String,
    expected: Long,
    behind: Seq[(String, Long)]
)
