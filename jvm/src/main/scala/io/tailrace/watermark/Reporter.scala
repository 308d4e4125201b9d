package io.tailrace.watermark

import java.io.IOException

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.StreamingBatch

import io.tailrace.common.TailraceStateException
import io.tailrace.driver.{DriverClock, RunState}

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

/** Who reports: a query, over all its starts, and one start of it. All that the start says to an application's server is said
  * in its name. When it says nothing for a while it says that, and when it ends it says so, for a reporter that lives is one
  * whose operators nobody else may report.
  *
  * {{{
  *   reports of sources and the sink ── 10 s without one: a heartbeat ── ... ── the query ends: leaving
  * }}}
  *
  * For several threads: sources report in the query's, the sink in one of its own as well.
  *
  * @param client   the query's id, which is in its checkpoint
  * @param run      of this start
  * @param isActive whether it runs
  * @param restMs   a heartbeat comes when nothing has been said for so long
  */
final class Reporter private[tailrace] (
    server: ServerSettings,
    client: String,
    run: String,
    isActive: () => Boolean,
    restMs: Long = Reporter.RestMs
) extends Logging {
  import Reporter._

  private val connection = new ServerConnection(server)
  private val warned = mutable.LinkedHashSet.empty[String]
  @volatile private var lastMs = DriverClock.ms

  private[watermark] def newBody(): ObjectNode =
    ServerConnection.newBody().put("client", client).put("run", run)

  /** @throws java.io.IOException if there is no answer
    * @throws io.tailrace.common.TailraceStateException TAILRACE_WATERMARK_REPORTER_CONFLICT, ..._RUN_REPLACED
    */
  private[watermark] def report(by: ServerConnection, body: ObjectNode): JsonNode = {
    val answer = by.report(body)
    lastMs = DriverClock.ms
    answer.path("warnings").elements.asScala.foreach(warning => warn(warning.asText))
    answer
  }

  private def warn(text: String): Unit = {
    val isNew = warned.synchronized {
      if (warned.size >= MostWarnings) warned.remove(warned.head)
      warned.add(text)
    }
    if (isNew) logWarning(s"TAILRACE_WATERMARK_SERVER_WARNING: ${server.url}, '${server.app}': $text")
  }

  /** Has a thread speak for the reporter until its query ends. */
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
      if (welcome && isActive() && DriverClock.ms - lastMs >= restMs) welcome = beat()
    }
    leave()
  }

  /** @return false if another start has taken over */
  private def beat(): Boolean =
    try {
      connection.attempt("The query goes on")(report(connection, withoutOperators)): Unit
      true
    } catch {
      // The query's own next report meets it, and ends the query.
      case e: TailraceStateException =>
        logWarning(s"${server.url} refuses the query $client", e)
        false
    }

  /** Once: a server that is away finds out by itself. */
  private[watermark] def leave(): Unit = if (Reporter.forget(this)) {
    try report(connection, withoutOperators.put("leaving", true)): Unit
    catch {
      case e @ (_: IOException | _: TailraceStateException) =>
        logInfo(s"${server.url} hasn't heard that the run $run of the query $client has ended: $e")
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

  /** @param queryId of a query that runs
    * @param runId   of this start
    */
  def of(session: SparkSession, queryId: String, runId: String, server: ServerSettings): Reporter =
    reporters.of(session, runId, s"${server.url.stripSuffix("/")} ${server.app}") {
      val isActive = () => StreamingBatch.activeRuns(session).contains(runId)
      Reporter.remember(new Reporter(server, queryId, runId, isActive)).start()
    }

  /** What the server takes for living is a minute. */
  private val RestMs = 10000L
  private val EveryMs = 200L
  private val MostWarnings = 1000

  private val living = mutable.HashSet.empty[Reporter]

  // A driver that is stopped with its query has no other moment to say so.
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
