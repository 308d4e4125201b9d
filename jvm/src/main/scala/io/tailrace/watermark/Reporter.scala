package io.tailrace.watermark

import java.io.IOException
import java.util.concurrent.CopyOnWriteArrayList

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.{RunClock, SparkSession, StreamingRun}

import io.tailrace.common.{TailraceConf, TailraceStateException}
import io.tailrace.driver.RunState

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

/** Reports to a server for one run of a query. While the server receives reports of a run, no other run may
  * report its operators. So the reporter sends a heartbeat when there is nothing to report, and reports the
  * query's end. Its thread also serves the sources: an idle query has no micro-batch in which they could repeat
  * a report that the servers have missed, or learn that other queries have caught up.
  *
  * {{{
  *   reports of sources and the sink ── 10 s without one: a heartbeat ── ... ── the query ends: leaving
  * }}}
  *
  * It is thread-safe: sources report in the query's thread, the sink also in a thread of its own.
  *
  * @param client   the query's id, from its checkpoint
  * @param run      the run's id
  * @param isActive whether the query runs
  * @param labels   what operators do, by their names, where the user has said so
  * @param restMs   a heartbeat is sent after this time without a report, in milliseconds
  * @param query    what its user calls the query, if anything
  * @param clock    of the run
  */
final class Reporter private[tailrace] (
    server: ServerSettings,
    client: String,
    run: String,
    isActive: () => Boolean,
    labels: Map[String, String] = Map.empty,
    restMs: Long = Reporter.RestMs,
    query: Option[String] = None,
    clock: RunClock = RunClock.System
) extends Logging {
  import Reporter._

  private val servers = new ServerFailover(server)
  private val connection = newConnection(server)
  private val warned = mutable.LinkedHashSet.empty[String]
  @volatile private var lastMs = clock.ms
  private val sources = new CopyOnWriteArrayList[() => Unit]

  /** For a thread or a part of the query that reports; each waits on its own while the servers are away. */
  private[watermark] def newConnection(of: ServerSettings): ServerConnection =
    new ServerConnection(of, servers, clock)

  /** @param batches how many micro-batches of the query it includes, if that is known */
  private[watermark] def newBody(batches: Option[Long] = None): ObjectNode = {
    val body = ServerConnection.newBody().put("client", client).put("run", run)
    body.put(ServerConnection.Version, ServerConnection.VersionNumber)
    query.filter(_.nonEmpty).foreach(name => body.put(ServerConnection.Query, WireName.encode(name)))
    batches.foreach(body.put(ServerConnection.Batches, _))
    body
  }

  /** Describes an operator of a report: in the user's words, or otherwise in words from the plan. */
  private[watermark] def putLabel(operator: ObjectNode, words: String): Unit =
    ServerConnection.putLabel(operator, labels.getOrElse(operator.path("operator").asText, words))

  /** @throws java.io.IOException if there is no answer
    * @throws io.tailrace.common.TailraceStateException TAILRACE_WATERMARK_REPORTER_CONFLICT, ..._RUN_REPLACED
    */
  private[watermark] def report(by: ServerConnection, body: ObjectNode): JsonNode = {
    val answer = by.report(body)
    lastMs = clock.ms
    answer.path("warnings").elements.asScala.foreach(warning => warn(warning.asText))
    answer
  }

  /** @param source is called several times a second by the reporter's thread, until the query ends or another
    *               run has taken over
    */
  private[watermark] def attendTo(source: () => Unit): Unit = sources.add(source): Unit

  private def warn(text: String): Unit = {
    val isNew = warned.synchronized {
      if (warned.size >= MostWarnings) warned.remove(warned.head)
      warned.add(text)
    }
    if (isNew) logWarning(s"TAILRACE_WATERMARK_SERVER_WARNING: ${server.named}, '${server.app}': $text")
  }

  /** Starts the thread that sends heartbeats and serves the sources until the query ends. */
  private[tailrace] def start(): Reporter = {
    val thread = new Thread(() => attend(), s"tailrace reporter of $client")
    thread.setDaemon(true)
    thread.start()
    this
  }

  private def attend(): Unit = {
    var welcome = true
    while (isActive()) {
      Thread.sleep(EveryMs)
      if (welcome && isActive()) welcome = isAccepted(sources.forEach(_.apply()))
      if (welcome && isActive() && clock.ms - lastMs >= restMs) welcome = beat()
    }
    leave()
  }

  private def beat(): Boolean = isAccepted {
    connection.attempt("The query continues")(report(connection, withoutOperators)): Unit
  }

  /** @return false if another run has taken over */
  private def isAccepted(requests: => Unit): Boolean =
    try {
      requests
      true
    } catch {
      // The server refuses the query's next report too, which ends the query.
      case e: TailraceStateException =>
        logWarning(s"${server.named} refuses the query $client", e)
        false
      // Heartbeats must not end while the query lives.
      case NonFatal(e) =>
        if (isActive()) logWarning(s"the thread that reports the query $client to ${server.named} failed", e)
        true
    }

  /** Sent once: a server that is away finds out, because the heartbeats end. */
  private[watermark] def leave(): Unit = if (Reporter.forget(this)) {
    try report(connection, withoutOperators.put("leaving", true)): Unit
    catch {
      case e @ (_: IOException | _: TailraceStateException) =>
        logInfo(s"${server.named} hasn't heard that the run $run of the query $client has ended: $e")
    }
  }

  private def withoutOperators: ObjectNode = {
    val body = newBody()
    body.putArray("operators")
    body
  }
}

object Reporter {
  private val reporters = new RunState[Reporter]

  /** The reporter of a run for an application. All its sources and its sink share it. */
  def of(session: SparkSession, queryId: String, runId: String, server: ServerSettings): Reporter =
    reporters.of(session, runId, s"${server.places.toSeq.sorted.mkString(",")} ${server.app}") {
      val isActive = () => StreamingRun.activeIds(session).contains(runId)
      val labels = TailraceConf.WatermarkLabels.read(session.conf.getOption)
      val query = StreamingRun.name(session, runId)
      val clock = StreamingRun.clock(session, runId)
      Reporter
        .remember(new Reporter(server, queryId, runId, isActive, labels, query = query, clock = clock))
        .start()
    }

  /** The server considers a reporter dead after a minute. */
  private val RestMs = 10000L
  private val EveryMs = 200L
  private val MostWarnings = 1000

  private val living = mutable.HashSet.empty[Reporter]

  // A driver that stops while its query runs reports the end here.
  private lazy val atShutdown: Unit = Runtime.getRuntime.addShutdownHook(new Thread(() => {
    val left = living.synchronized(living.toSeq)
    left.foreach(_.leave())
  }))

  private[watermark] def remember(reporter: Reporter): Reporter = {
    atShutdown
    living.synchronized(living += reporter)
    reporter
  }

  private def forget(reporter: Reporter): Boolean = living.synchronized(living.remove(reporter))
}
