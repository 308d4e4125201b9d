package io.tailrace.progress

import java.io.IOException

import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

/** What a server says of a sink: low watermarks in microseconds, none while nothing is known.
  *
  * @param input        of what the sink reads
  * @param output       the sink's own, as the server knows it
  * @param applications the least of all the application's sinks
  */
final case class SinkWord(input: Option[Long], output: Option[Long], applications: Option[Long])

/** A closed window's report, for a server.
  *
  * @param missing hosts, and how far their logs have been read
  */
final case class ToldWindow(
    start: Long,
    end: Long,
    expected: Long,
    passed: Long,
    missing: Seq[(String, Option[Long])],
    lateRows: Long
)

/** Tells a watermark server how far a sink is, and asks it how far all are. While it is away attempts become rarer.
  *
  * @param client    names the query to the server
  * @param upstreams the operators whose rows the sink writes
  */
final class SinkClient(server: ServerSettings, client: String, upstreams: Seq[String]) extends Logging {
  import SinkClient._

  private val connection = new ServerConnection(server)
  private var failures = 0
  private var nextAttempt = 0L

  /** @param low the sink's low watermark, in microseconds, [[HostTable.Never]] while there is none: the server hears then
    *            that it is at the beginning, for a sink that doesn't say how far it is is as far as its upstreams
    * @return none while the server is away
    */
  def report(low: Long, windows: Seq[ToldWindow]): Option[SinkWord] = attempt {
    val answer = connection.report(body(low, windows))
    val own = answer.path("operators").path(server.operator)
    def time(node: JsonNode) =
      // The beginning is where nobody is yet.
      Option.when(node.isIntegralNumber && node.asLong > 0)(node.asLong)
    SinkWord(
      time(own.path("input_low_watermark")),
      time(own.path("output_low_watermark")),
      time(answer.path("global_low_watermark"))
    )
  }

  private def body(low: Long, windows: Seq[ToldWindow]): ObjectNode = {
    val root = ServerConnection.newBody().put("client", client.takeRight(LongestName))
    val operator = root.putArray("operators").addObject().put("operator", server.operator).put("kind", "sink")
    val above = operator.putArray("upstreams")
    upstreams.foreach(name => above.add(name))
    operator.putObject("low_watermarks").put("0", Math.max(0L, Math.min(low, ServerConnection.LatestTime)))
    val told = root.putArray("windows")
    windows.filter(w => isTime(w.start) && isTime(w.end)).foreach { w =>
      val one = told.addObject().put("operator", server.operator).put("start", w.start).put("end", w.end)
      one.put("expected", w.expected).put("passed", w.passed).put("late_rows", w.lateRows)
      val missing = one.putArray("missing")
      w.missing.take(MostMissing).foreach { case (host, progress) =>
        val entry = missing.addObject().put("host", host)
        progress.filter(isTime).fold(entry.putNull("progress"))(entry.put("progress", _))
      }
    }
    root
  }

  /** The hosts of a source as the server knows them, from all queries: those that count.
    *
    * @param operator the source's name at the server
    * @param through  who has been read so far has passed
    * @return none while the server is away
    */
  def hosts(operator: String, source: ProgressSettings, through: Long): Option[SourceHosts] = attempt {
    val topology = connection.read("").path("topology").elements.asScala
    val known = topology.find(_.path("operator").asText == operator)
    val expected = known.map(_.path("hosts").asLong).getOrElse(0L)
    SourceHosts(source.name, source.completeness.toString, expected, behind(operator, through, 0))
  }

  private def behind(operator: String, through: Long, offset: Int): Seq[(String, Long)] = {
    val name = ServerConnection.encoded(operator)
    val page = connection.read(s"/hosts?operator=$name&limit=$PageLength&offset=$offset")
    val hosts = page.path("hosts").elements.asScala.toSeq
    val before = hosts.filter(h => h.path("progress").isNull || h.path("progress").asLong < through)
    val counting = before.filterNot(h => NotCounting(h.path("state").asText)).map { h =>
      val progress = h.path("progress")
      h.path("host").asText -> (if (progress.isNull) HostTable.Never else progress.asLong)
    }
    // The slowest come first.
    val isLast = before.size < PageLength || offset + PageLength > LastOffset
    if (isLast) counting else counting ++ behind(operator, through, offset + PageLength)
  }

  private def attempt[T](request: => T): Option[T] =
    if (System.nanoTime() - nextAttempt < 0) None
    else
      try {
        val answer = request
        if (failures > 0) logInfo(s"The watermark server ${server.url} answers again")
        failures = 0
        Some(answer)
      } catch {
        case e: IOException =>
          failures += 1
          // Subtracted and compared: the clock may be any number.
          nextAttempt = System.nanoTime() + Math.min(LongestPause, FirstPause << Math.min(failures - 1, 10))
          logWarning(
            s"TAILRACE_WATERMARK_SERVER_AWAY: ${server.url} has not taken the report of '${server.operator}' of " +
              s"'${server.app}': $e. No window closes until it is back; rows go on landing"
          )
          None
      }

  private def isTime(micros: Long): Boolean = micros >= 0 && micros <= ServerConnection.LatestTime
}

object SinkClient {

  /** In one report. */
  val MostWindows = 200

  private val MostMissing = 1000
  private val LongestName = 200
  private val PageLength = 1000
  private val LastOffset = 100000
  private val NotCounting = Set("excluded", "not in roster")
  private val FirstPause = 500L * 1000 * 1000
  private val LongestPause = 30L * 1000 * 1000 * 1000
}
