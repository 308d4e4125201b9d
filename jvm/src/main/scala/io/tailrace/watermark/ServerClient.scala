package io.tailrace.watermark

import java.util.BitSet

import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

/** Tells a watermark server how far a source's hosts have been read, and takes its word for how far all of them have: it
  * hears of hosts from other queries too.
  *
  * One request a batch, of the hosts that have moved since the last one that was answered. Times are maxima, so that a
  * report may come twice, or late. While the server is away its last word counts, and the hosts that move are remembered.
  *
  * {{{
  *   60,000 hosts, to a server that doesn't know them
  *   1st request   50,000 hosts, the roster's version     the server has no roster of it: it decides nothing
  *   2nd           10,000 hosts, the roster               now it does
  * }}}
  *
  * The roster comes with the last hosts, also if it is empty: a low watermark of some hosts would never go back for the others.
  *
  * @param reads what no two queries that live may have in common
  */
private[watermark] final class ServerClient(
    server: ServerSettings,
    settings: ProgressSettings,
    reporter: Reporter,
    reads: () => QueryReads
) extends Logging {
  import ServerClient._
  private val connection = new ServerConnection(server)

  private val pending = new BitSet
  private var everything = true
  private var rosterNeeded = true

  @volatile private var acknowledged = false

  /** Whether the server knows this start of the query and all hosts that it began with. */
  def isKnown: Boolean = acknowledged

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
    * @param hasUnread whether the source has rows that this start has not read yet
    * @return the source's low watermark, in microseconds; none while the server is away, or doesn't know yet
    */
  def report(
      table: HostTable,
      moved: Array[Int],
      input: Option[Long] = None,
      operators: Seq[OperatorReport] = Nil,
      hasUnread: Boolean = false
  ): Option[Long] = {
    moved.foreach(pending.set)
    // What an earlier run had not told any more isn't known.
    if (everything) pending.set(0, table.size)
    everything = false
    connection
      .attempt(
        s"The watermark '${settings.name}' stays where it is; the query goes on, and tells the server of " +
          s"${pending.cardinality} hosts when it is back"
      ) {
        // Hosts that the server doesn't know it can't wait for: its word counts when it has been told of all.
        var word = exchange(table, input, operators, hasUnread)
        while (!pending.isEmpty && !everything) word = exchange(table, input, operators, hasUnread)
        acknowledged ||= pending.isEmpty
        word
      }
      .flatten
  }

  /** The table has been made anew.
    *
    * @param numbers of the hosts that it had, now; -1 for those that are gone
    */
  def renumber(numbers: Array[Int]): Unit = {
    val before = pending.stream.toArray
    pending.clear()
    before.map(numbers(_)).filter(_ >= 0).foreach(pending.set)
  }

  private def exchange(
      table: HostTable,
      input: Option[Long],
      operators: Seq[OperatorReport],
      hasUnread: Boolean
  ): Option[Long] = {
    val sending = next(table)
    val isLast = sending.length == pending.cardinality
    // A server that goes away now may come back without the hosts that it has been told of.
    everything = rosterNeeded
    val answer =
      reporter.report(connection, body(table, sending, rosterNeeded && isLast, input, operators, hasUnread))
    sending.foreach(pending.clear)
    if (rosterNeeded && !isLast) everything = false // it asks for what is still to come
    else {
      rosterNeeded = answer.path("need_roster").asBoolean
      // Who hasn't the roster hasn't the hosts either.
      everything = rosterNeeded
    }
    learnIdle(answer.path("idle_hosts").path(server.operator))
    globalLow = micros(answer.path("global_low_watermark"))
    micros(answer.path("operators").path(server.operator).path("output_low_watermark"))
  }

  private def micros(time: JsonNode): Option[Long] = Option.when(time.isIntegralNumber)(time.asLong)

  private def learnIdle(hosts: JsonNode): Unit = {
    val now = hosts.elements.asScala.map(host => WireName.decode(host.asText)).toSet
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

  private def next(table: HostTable): Array[Int] = {
    var bytes = 0L
    pending.stream
      .limit(MostHosts.toLong)
      .takeWhile { host =>
        bytes += BytesPerHost + table
          .name(host)
          .length
          .toLong
          .min(WireName.Longest.toLong) * BytesPerCharacter
        bytes <= MostBytes
      }
      .toArray
  }

  private def body(
      table: HostTable,
      sending: Array[Int],
      withRoster: Boolean,
      input: Option[Long],
      operators: Seq[OperatorReport],
      hasUnread: Boolean
  ): ObjectNode = {
    val root = reporter.newBody()
    val all = root.putArray("operators")
    val operator = all.addObject()
    operator.put("operator", server.operator).put("kind", "source").putArray("upstreams")
    operator.put("completeness", settings.completeness.toString).put("roster_version", settings.rosterVersion)
    if (hasUnread) operator.put("unread", true)
    // Each time: a server that has forgotten this query has to know what is at stake.
    val names = reads()
    put(operator.putArray("reads"), names.source)
    settings.idleAfterMs.foreach(ms => operator.put("idle_after", ms * 1000))
    if (withRoster) {
      val roster = operator.putArray("roster")
      settings.roster.foreach(_.foreach(host => roster.add(WireName.encode(host))))
    }
    val progress = operator.putObject("progress")
    sending.foreach { host =>
      val time = table.time(host)
      // A host whose rows are all of 1960 has to be known, too: it is waited for.
      if (time != HostTable.Never)
        progress.put(WireName.encode(table.name(host)), ServerConnection.nearest(time))
    }
    input.filter(_ != HostTable.Never).foreach { low =>
      operator.put("input_low_watermark", ServerConnection.nearest(low))
    }
    operators.foreach { report =>
      val one = all.addObject().put("operator", report.name).put("kind", report.kind)
      val upstreams = one.putArray("upstreams")
      report.upstreams.foreach(upstreams.add)
      val lows = one.putObject("low_watermarks")
      report.lowWatermarks.foreach { case (group, low) => lows.put(group, ServerConnection.nearest(low)) }
      if (report.lowWatermarks.nonEmpty) one.put("key_groups", report.keyGroups)
      put(one.putArray("reads"), names.query)
    }
    root
  }

  private def put(array: ArrayNode, names: Seq[String]): Unit =
    names.take(MostReads).foreach(name => array.add(WireName.encode(name)))
}

/** Names of what a query reads.
  *
  * @param source of what one source reads
  * @param query  of what all its sources read: what operators behind them are made of
  */
private[watermark] final case class QueryReads(source: Seq[String], query: Seq[String])

private[watermark] object ServerClient {

  /** Names of what is read that a server takes. */
  private val MostReads = 10000

  /** In one request; the others come with the next one. */
  private val MostHosts = 50000

  // A server takes 16 MB. A roster may be in it, too, which is half of that at most.
  private val MostBytes = 6000000L
  private val BytesPerHost = 30L
  private val BytesPerCharacter = 3L

  /** Hosts that are named in a warning. */
  private val MostNamed = 20
}
