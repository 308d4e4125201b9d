package io.tailrace.progress

import java.io.IOException
import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.Duration
import java.util.BitSet

import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** Tells a watermark server how far a source's hosts have been read, and takes its word for how far all of them have: it
  * hears of hosts from other queries too.
  *
  * One request a batch, of the hosts that have moved since the last one that was answered. Times are maxima, so that a
  * report may come twice, or late. While the server is away its last word counts, the hosts that move are remembered, and
  * attempts become rarer, so that a batch waits for none of them longer than [[ServerClient.Timeout]].
  *
  * @param client names the query to the server, over its starts
  */
private[progress] final class ServerClient(server: ServerSettings, settings: ProgressSettings, client: String)
    extends Logging {
  import ServerClient._

  private val pending = new BitSet
  private var everything = true
  private var rosterNeeded = true

  // Of this start of the query, which may have another roster than the last one. A server that has lost its store then
  // waits for the roster instead of counting those hosts alone that move.
  private val rosterVersion = System.currentTimeMillis()

  private var failures = 0
  private var nextAttempt = 0L

  // The least of the application's sinks, as of the last answer.
  private var globalLow: Option[Long] = None

  // Hosts that the server doesn't wait for.
  private var idle = Set.empty[String]

  /** How many hosts are silent for longer than the source waits, as of the last answer. */
  def idleHosts: Int = idle.size

  /** How far all sinks of the application are, in microseconds; none: nobody knows, or the server is away. */
  def global: Option[Long] = globalLow

  /** @param moved     numbers of hosts in the table
    * @param input     how far the stamps are that the source starts from, in microseconds; none: it starts from logs
    * @param operators what the query makes of the source
    * @return the source's low watermark, in microseconds; none while the server is away, or doesn't know yet
    */
  def report(
      table: HostTable,
      moved: Array[Int],
      input: Option[Long] = None,
      operators: Seq[OperatorReport] = Nil
  ): Option[Long] = {
    moved.foreach(pending.set)
    // What an earlier run had not told any more isn't known.
    if (everything) pending.set(0, table.size)
    everything = false
    if (System.nanoTime() - nextAttempt < 0) None else attempt(table, input, operators)
  }

  private def attempt(
      table: HostTable,
      input: Option[Long],
      operators: Seq[OperatorReport]
  ): Option[Long] = {
    val sending = pending.stream.limit(MostHosts.toLong).toArray
    try {
      val answer = send(body(table, sending, input, operators))
      sending.foreach(pending.clear)
      rosterNeeded = answer.path("need_roster").asBoolean
      // Who hasn't the roster hasn't the hosts either.
      everything = rosterNeeded
      if (failures > 0) logInfo(s"The watermark server ${server.url} answers again")
      failures = 0
      learnIdle(answer.path("idle_hosts").path(server.operator))
      globalLow = micros(answer.path("global_low_watermark"))
      micros(answer.path("operators").path(server.operator).path("output_low_watermark"))
    } catch {
      case e: IOException =>
        failures += 1
        // Subtracted and compared: the clock may be any number.
        nextAttempt = System.nanoTime() + Math.min(LongestPause, FirstPause << Math.min(failures - 1, 10))
        logWarning(
          s"TAILRACE_WATERMARK_SERVER_AWAY: ${server.url} has not taken the report of '${server.operator}' of " +
            s"'${server.app}': $e. The watermark '${settings.name}' stays where it is; the query goes on, and tells the " +
            s"server of ${pending.cardinality} hosts when it is back"
        )
        None
    }
  }

  private def micros(time: JsonNode): Option[Long] = Option.when(time.isIntegralNumber)(time.asLong)

  private def learnIdle(hosts: JsonNode): Unit = {
    val now = hosts.elements.asScala.map(_.asText).toSet
    val silent = now -- idle
    if (silent.nonEmpty) {
      logWarning(
        s"TAILRACE_WATERMARK_HOST_IDLE: the watermark server ${server.url} has heard nothing of " +
          s"${silent.toSeq.sorted.take(MostNamed).mkString(", ")} for ${settings.idleAfterMs.getOrElse(0L)} ms: " +
          s"the watermark '${settings.name}' doesn't wait for them until they are back"
      )
    }
    idle = now
  }

  private def body(
      table: HostTable,
      sending: Array[Int],
      input: Option[Long],
      operators: Seq[OperatorReport]
  ): ObjectNode = {
    val root = json.createObjectNode().put("client", client)
    val all = root.putArray("operators")
    val operator = all.addObject()
    operator.put("operator", server.operator).put("kind", "source").putArray("upstreams")
    operator.put("completeness", settings.completeness.toString).put("roster_version", rosterVersion)
    settings.idleAfterMs.foreach(ms => operator.put("idle_after", ms * 1000))
    if (rosterNeeded) {
      val roster = operator.putArray("roster")
      settings.roster.foreach(_.foreach(roster.add))
    }
    val progress = operator.putObject("progress")
    sending.foreach { host =>
      val time = table.time(host)
      if (isTime(time)) progress.put(table.name(host), time)
    }
    input.filter(isTime).foreach(operator.put("input_low_watermark", _))
    operators.foreach { report =>
      val one = all.addObject().put("operator", report.name).put("kind", report.kind)
      val upstreams = one.putArray("upstreams")
      report.upstreams.foreach(upstreams.add)
      val lows = one.putObject("low_watermarks")
      report.lowWatermarks.foreach { case (group, low) => if (isTime(low)) lows.put(group, low) }
    }
    root
  }

  private def isTime(micros: Long): Boolean = micros >= 0 && micros <= LatestTime

  /** @throws java.io.IOException if there is no answer, or another one than 200 */
  private def send(body: ObjectNode): JsonNode = {
    val request = HttpRequest
      .newBuilder(URI.create(s"${server.url.stripSuffix("/")}/v1/apps/${encoded(server.app)}/reports"))
      .timeout(Timeout)
      .header("Content-Type", "application/json")
      .POST(HttpRequest.BodyPublishers.ofByteArray(json.writeValueAsBytes(body)))
    server.token.foreach(token => request.header("Authorization", s"Bearer $token"))
    val response = http.send(request.build(), HttpResponse.BodyHandlers.ofString(UTF_8))
    if (response.statusCode != 200) {
      throw new IOException(s"status ${response.statusCode}: ${response.body.take(MostOfAnAnswer)}")
    }
    json.readTree(response.body)
  }
}

private[progress] object ServerClient {

  /** What a batch waits for an answer at most. */
  val Timeout: Duration = Duration.ofSeconds(2)

  private val FirstPause = Duration.ofMillis(500).toNanos
  private val LongestPause = Duration.ofSeconds(30).toNanos

  /** In one request; the others come with the next batch. */
  private val MostHosts = 50000

  private val MostOfAnAnswer = 300

  /** Hosts that are named in a warning. */
  private val MostNamed = 20

  /** The greatest whole number that every reader of JSON has exactly; the year 2255. */
  private val LatestTime = (1L << 53) - 1

  private val json = new ObjectMapper
  private lazy val http =
    HttpClient.newBuilder().connectTimeout(Timeout).version(HttpClient.Version.HTTP_1_1).build()

  private def encoded(segment: String): String =
    java.net.URLEncoder.encode(segment, UTF_8).replace("+", "%20")
}
