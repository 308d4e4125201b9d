package io.tailrace.watermark

import java.util.BitSet

import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging

import io.tailrace.common.SparkWatermark
import io.tailrace.watermark.ServerConnection.{Batches, Logs, nearest, time}

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

/** Reports to a watermark server how far a source's hosts have been read, and gets the source's low
  * watermark. Other queries report hosts of the source too.
  *
  * A batch sends one request with the hosts that have moved since the last answer. Times are maxima, so a
  * report may arrive twice or late. While the server is away, its last answer counts, and moved hosts are
  * remembered: the report is owed, and [[repeat]] sends it again, though no micro-batch may follow.
  *
  * {{{
  *   60,000 hosts that the server doesn't know
  *   1st request   50,000 hosts, the roster's version     the server has no such roster: it decides nothing
  *   2nd request   10,000 hosts, the roster               now it decides
  * }}}
  *
  * The roster is sent with the last hosts, even if it is empty: with it, the server decides. A low watermark
  * that was made of some hosts only would not go back for the others.
  *
  * @param reads no two active queries may read the same
  * @param words what the source reads, for people
  */
private[watermark] final class ServerClient(
    server: ServerSettings,
    settings: ProgressSettings,
    reporter: Reporter,
    reads: () => QueryReads,
    words: () => Seq[String]
) extends Logging {
  import ServerClient._
  private val connection = reporter.newConnection(server)

  private val pending = new BitSet
  private var everything = true
  private var rosterNeeded = true

  // How many micro-batches the server has acknowledged in this run.
  private var batchesThere = Option.empty[Long]
  private var hasForgotten = false

  /** The warnings of the last answer. */
  def warnings: Seq[String] = said
  @volatile private var said = Seq.empty[String]

  /** The other queries that hold back the source's low watermark at the server, at most a few. */
  def holders: Seq[String] = holding
  @volatile private var holding = Seq.empty[String]

  @volatile private var acknowledged = false

  /** True if the server knows this run of the query and all hosts that it began with. */
  def isKnown: Boolean = acknowledged

  private var globalLow: Option[Long] = None

  /** The minimum low watermark of the application's sinks, in microseconds; none if it isn't known. */
  def global: Option[Long] = globalLow

  private var last = Option.empty[SentReport]
  private var owed = false

  /** True if the servers lack some of the last report. */
  def isOwed: Boolean = owed

  private var idle = Set.empty[String]

  /** The number of hosts that the server doesn't wait for. */
  def idleHosts: Int = idle.size

  /** @param moved     numbers of hosts in the table
    * @param input     the low watermark of the stamps that the source reads, in microseconds; none if it
    *                  reads logs
    * @param operators the query's other operators
    * @param hasUnread whether the source has rows that this run has not read yet
    * @param batches   the number of micro-batches that the table includes
    * @return the source's low watermark, in microseconds; none while the server is away or doesn't know it
    */
  def report(
      table: HostTable,
      moved: Array[Int],
      input: Option[Long] = None,
      operators: Seq[OperatorReport] = Nil,
      hasUnread: Boolean = false,
      batches: Option[Long] = None
  ): Option[Long] = {
    moved.foreach(pending.set)
    deliver(table, SentReport(input, operators, hasUnread, batches, reads(), label))
  }

  /** Sends the last report again, with the hosts that the server lacks, if any: its answer is the current low
    * watermark. It needn't be called in the query's thread. [[global]], which rows of a micro-batch are stamped
    * with, changes only with a report.
    *
    * @param table of the last report
    * @return the source's low watermark, as by `report`
    */
  def repeat(table: HostTable): Option[Long] = {
    val before = globalLow
    // Rows that were unread at that time count once: the query has had nothing to read since.
    try last.flatMap(sent => deliver(table, if (owed) sent else sent.copy(hasUnread = false)))
    finally globalLow = before
  }

  /** Takes the progress of the operators since the last report. If there is any, the servers lack it, and
    * [[repeat]] sends it.
    */
  def note(operators: Seq[OperatorReport]): Unit =
    last.filter(_.operators != operators).foreach { sent =>
      // The servers count rows that were unread at that time once.
      last = Some(sent.copy(operators = operators, hasUnread = owed && sent.hasUnread))
      owed = true
    }

  private def deliver(table: HostTable, report: SentReport): Option[Long] = {
    last = Some(report)
    owed = true
    // An earlier run may have ended before it reported.
    if (everything) pending.set(0, table.size)
    everything = false
    def send() = exchange(table, report)
    def meanwhile =
      s"The watermark '${settings.name}' stays where it is; the query continues, and tells the " +
        s"server of ${pending.cardinality} hosts when it is back"
    val answer = connection.attempt(meanwhile) {
      // The server can't wait for hosts that it doesn't know: its answer counts when it has all of them.
      var low = send()
      if (hasForgotten) {
        hasForgotten = false
        batchesThere = None
        pending.set(0, table.size)
        everything = false
        low = send()
      }
      while (!pending.isEmpty && !everything) low = send()
      acknowledged ||= pending.isEmpty
      owed = !pending.isEmpty || everything
      low
    }
    answer.flatten
  }

  /** Follows a table that was rebuilt.
    *
    * @param numbers the new number of each host, -1 for forgotten ones
    */
  def renumber(numbers: Array[Int]): Unit = {
    val before = pending.stream.toArray
    pending.clear()
    before.map(numbers(_)).filter(_ >= 0).foreach(pending.set)
  }

  private def exchange(table: HostTable, report: SentReport): Option[Long] = {
    val sending = next(table)
    val isLast = sending.length == pending.cardinality
    // If the server restarts now, it may have lost the hosts that it has received.
    everything = rosterNeeded
    val answer = reporter.report(connection, body(table, sending, rosterNeeded && isLast, report))
    sending.foreach(pending.clear)
    if (rosterNeeded && !isLast) everything = false // it asks for hosts that follow
    else {
      rosterNeeded = answer.path("need_roster").asBoolean
      // A server without the roster has no hosts either.
      everything = rosterNeeded
    }
    learnIdle(answer.path("idle_hosts").path(server.operator))
    holding = answer.path("held_by").path(server.operator).elements.asScala.map(_.asText).toSeq
    said = answer.path("warnings").elements.asScala.map(_.asText).toSeq
    globalLow = time(answer.path("global_low_watermark"))
    val own = answer.path("operators").path(server.operator)
    learnForgotten(time(own.path(Batches)))
    batchesThere = report.batches.orElse(batchesThere)
    time(own.path("output_low_watermark"))
  }

  /** A database that was restored from a backup has less than the server has acknowledged.
    *
    * @param known how many micro-batches had been reported to the server before this report
    */
  private def learnForgotten(known: Option[Long]): Unit =
    known.zip(batchesThere).filter { case (there, told) => there < told }.foreach { case (there, told) =>
      logWarning(
        s"TAILRACE_WATERMARK_SERVER_FORGOT: ${server.named} knows $there micro-batches of the watermark " +
          s"'${settings.name}', and had acknowledged $told: its database was restored from an older copy. " +
          "It is told of all hosts again; repeat the overrides since that copy"
      )
      rosterNeeded = true
      hasForgotten = true
    }

  private def learnIdle(hosts: JsonNode): Unit = {
    val now = hosts.elements.asScala.map(host => WireName.decode(host.asText)).toSet
    val newlyIdle = now -- idle
    if (newlyIdle.nonEmpty) {
      logWarning(
        s"TAILRACE_WATERMARK_HOST_IDLE: the watermark server ${server.named} has heard nothing of " +
          s"${WatermarkErrors.named(newlyIdle.toSeq.sorted)} for ${settings.idleAfterMs.getOrElse(0L)} ms: " +
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
        bytes += BytesPerHost + Math.min(table.name(host).length, WireName.Longest) * BytesPerCharacter
        bytes <= MostBytes
      }
      .toArray
  }

  private def body(
      table: HostTable,
      sending: Array[Int],
      withRoster: Boolean,
      sent: SentReport
  ): ObjectNode = {
    val root = reporter.newBody(sent.batches)
    val all = root.putArray("operators")
    val operator = all.addObject()
    operator.put("operator", server.operator).put("kind", "source").putArray("upstreams")
    reporter.putLabel(operator, sent.label)
    operator.put("completeness", settings.completeness.toString).put("roster_version", settings.rosterVersion)
    server.logs.foreach(logs => operator.put(Logs, WireName.encode(logs)))
    if (sent.hasUnread) operator.put("unread", true)
    // Each time: a server that has lost this query must check it for conflicts.
    put(operator.putArray("reads"), sent.reads.source.take(MostReads))
    settings.idleAfterMs.foreach(ms => operator.put("idle_after", ms * 1000))
    if (withRoster) put(operator.putArray("roster"), settings.roster.getOrElse(Nil))
    val progress = operator.putObject("progress")
    sending.foreach { host =>
      val read = table.time(host)
      if (read != SparkWatermark.Never) progress.put(WireName.encode(table.name(host)), nearest(read))
    }
    sent.input
      .filter(_ != SparkWatermark.Never)
      .foreach(low => operator.put("input_low_watermark", nearest(low)))
    sent.operators.foreach { report =>
      val one = all.addObject().put("operator", report.name).put("kind", report.kind)
      reporter.putLabel(one, report.words)
      val upstreams = one.putArray("upstreams")
      report.upstreams.foreach(upstreams.add)
      val lows = one.putObject("low_watermarks")
      report.lowWatermarks.foreach { case (group, low) => lows.put(group, nearest(low)) }
      if (report.lowWatermarks.nonEmpty) one.put("key_groups", report.keyGroups)
      put(one.putArray("reads"), sent.reads.query.take(MostReads))
    }
    root
  }

  private def label: String = {
    val named =
      if (settings.name == WatermarkOptions.Name) "source" else s"source ${settings.name}"
    val read = words()
    if (read.isEmpty) named else s"$named (${read.mkString("; ")})"
  }

  private def put(array: ArrayNode, names: Seq[String]): Unit =
    names.foreach(name => array.add(WireName.encode(name)))
}

/** The names of a query's inputs.
  *
  * @param source the input of one source
  * @param query  the inputs of all its sources
  */
private[watermark] final case class QueryReads(source: Seq[String], query: Seq[String])

private[watermark] object ServerClient {

  /** A report but for the progress of hosts, which the table has. Only the query's thread can tell what the
    * query reads.
    */
  private final case class SentReport(
      input: Option[Long],
      operators: Seq[OperatorReport],
      hasUnread: Boolean,
      batches: Option[Long],
      reads: QueryReads,
      label: String
  )

  /** The most inputs that a server accepts. */
  private val MostReads = 10000

  /** The most hosts in one request. The others follow in the next one. */
  private val MostHosts = 50000

  // A server accepts 16 MB. A roster in the same request takes at most half of that.
  private val MostBytes = 6000000L
  private val BytesPerHost = 30L
  private val BytesPerCharacter = 3L
}
