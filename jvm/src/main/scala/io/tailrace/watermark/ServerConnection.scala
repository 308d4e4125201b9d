package io.tailrace.watermark

import java.io.IOException
import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse, HttpTimeoutException}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.Duration
import java.util.concurrent.{
  CompletableFuture,
  ConcurrentHashMap,
  ExecutionException,
  TimeUnit,
  TimeoutException
}

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.{OperatorWords, RunClock}

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** Sends the requests of one application to its watermark servers. While all of them are away, attempts
  * become rarer. A batch waits at most [[ServerFailover.Timeout]] for each server in an attempt.
  *
  * @param servers of the run of the query
  * @param clock   of that run
  */
private[watermark] final class ServerConnection(
    server: ServerSettings,
    servers: ServerFailover,
    clock: RunClock
) extends Logging {
  import ServerConnection._

  // A sink has two threads. A race between them costs one attempt.
  @volatile private var failures = 0
  @volatile private var nextAttempt = 0L

  // The last refusal: repeated, it isn't logged again.
  @volatile private var refusal = ""

  // Fields that this server refuses, for it is of an earlier release.
  @volatile private var refused = Set.empty[String]

  /** A low watermark in an answer; none if it isn't known, for which a server of an earlier release writes 0. */
  def low(node: JsonNode): Option[Long] = time(node).filter(_ > 0 || takesTimesBefore1970)

  private def takesTimesBefore1970 = !refused(Version)

  private val reporter = s"'${server.operator}' of '${server.app}'"

  /** Runs requests, unless it is too early for another attempt.
    *
    * @param meanwhile the consequence of a failure, for the warning
    * @return none while no server answers
    */
  def attempt[T](meanwhile: => String)(requests: => T): Option[T] =
    if (clock.nanos - nextAttempt < 0) None
    else
      try {
        val answer = requests
        if (failures > 0) logInfo(s"The watermark server ${server.named} answers again")
        failures = 0
        refusal = ""
        Some(answer)
      } catch {
        case e: IOException =>
          failures += 1
          refused = Set.empty // another release may be there when it is back
          // A difference is compared, because the clock may have any value.
          nextAttempt = clock.nanos + Math.min(LongestPause, FirstPause << Math.min(failures - 1, 10))
          warn(e, meanwhile)
          None
      }

  private def warn(failure: IOException, meanwhile: String): Unit = failure match {
    case refused: RefusedReportException =>
      // Numbers in the message may differ each time.
      val kind = refused.getMessage.filterNot(_.isDigit)
      if (kind != refusal) {
        refusal = kind
        logWarning(
          s"TAILRACE_WATERMARK_REPORT_REFUSED: ${server.named} refuses the report of $reporter, and is asked " +
            s"again without another warning: ${refused.getMessage}. $meanwhile"
        )
      }
    case _ =>
      refusal = ""
      logWarning(
        s"TAILRACE_WATERMARK_SERVER_AWAY: ${server.named} has not taken the report of $reporter: $failure. " +
          meanwhile
      )
  }

  /** @throws java.io.IOException if there is no answer, or its status isn't 200 */
  def report(body: ObjectNode): JsonNode = {
    drop(body, refused)
    if (!takesTimesBefore1970) since1970(body)
    val answer = post(body)
    val unknown =
      if (answer.statusCode != 422) None
      else Later.find(field => !refused(field) && answer.body.contains(s"'$field' is no field"))
    unknown match {
      case Some(field) =>
        logInfo(s"${server.named} is of an earlier release, which doesn't know the field '$field'")
        refused += field
        report(body)
      case None => read(answer)
    }
  }

  /** Converts a report for a server of an earlier release, to which 0 means that there is no low watermark.
    *
    * @throws java.io.IOException if a time is before 1970, which such a server would treat as 1970
    */
  private def since1970(body: ObjectNode): Unit = {
    def refuse(what: String) = throw new RefusedReportException(
      s"$what is before 1970, which a server of an earlier release can't keep: start one of this release"
    )
    body.path("operators").elements.asScala.foreach { operator =>
      operator.path("progress").properties.asScala.filter(_.getValue.asLong < 0).foreach { host =>
        refuse(s"the time of the host '${host.getKey}'")
      }
      if (operator.path("input_low_watermark").asLong < 0) refuse("a stamp")
      operator.path("low_watermarks") match {
        case lows: ObjectNode =>
          lows.properties.asScala.toSeq.foreach { low =>
            if (low.getValue.asLong == Earliest) lows.put(low.getKey, 0L): Unit
            else if (low.getValue.asLong < 0) refuse("a low watermark")
          }
        case _ =>
      }
    }
    val windows = body.path("windows").elements
    windows.asScala.foreach(w => if (w.path("start").asLong < 0) windows.remove())
  }

  private def post(body: ObjectNode): HttpResponse[String] = {
    val bytes = json.writeValueAsBytes(body)
    servers.send("/reports") { request =>
      request
        .header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofByteArray(bytes))
    }
  }

  /** @param path below the application's, with parameters
    * @throws java.io.IOException if there is no answer, or its status isn't 200
    */
  def read(path: String): JsonNode = read(servers.send(path)(_.GET()))

  private def read(answer: HttpResponse[String]): JsonNode = {
    if (answer.statusCode == 409) refuse(answer.body)
    if (answer.statusCode != 200) throw new IOException(ServerFailover.statusOf(answer))
    json.readTree(answer.body)
  }

  /** Two codes end the query, because another query or run reports the same. After other refusals the
    * request is repeated: somebody may raise a limit or remove something.
    */
  private def refuse(body: String): Unit = {
    val problem = json.readTree(body)
    def detail = problem.path("detail").asText
    problem.path("code").asText match {
      case "TAILRACE_WATERMARK_REPORTER_CONFLICT" =>
        throw WatermarkErrors.reporterConflict(server.named, server.app, detail)
      case "TAILRACE_WATERMARK_RUN_REPLACED" =>
        throw WatermarkErrors.runReplaced(server.named, server.app, detail)
      case _ if detail.nonEmpty => throw new RefusedReportException(detail)
      case _ =>
    }
  }
}

/** The server refuses a report that contradicts its state or exceeds a limit. The message is the server's. */
private[watermark] final class RefusedReportException(detail: String) extends IOException(detail)

private[watermark] object ServerConnection {

  // The greatest integer that every JSON parser reads exactly. As a time it is in 2255.
  private val LatestTime = (1L << 53) - 1

  /** The smallest such integer, a time in 1684. It means that there is no low watermark. */
  val Earliest: Long = -LatestTime

  /** The version of the protocol: since 2 there are times before 1970. */
  val Version = "version"
  val VersionNumber = 2
  val Query = "query"
  val Batches = "batches"
  val Logs = "logs"
  private val Label = "label"

  /** Fields that a server of an earlier release refuses. */
  private val Later = Seq(Version, Query, Batches, Logs, Label)

  /** The nearest time that the protocol can express, in microseconds. */
  def nearest(micros: Long): Long = Math.max(Earliest, Math.min(micros, LatestTime))

  /** True if the protocol can express a time. */
  def isTime(micros: Long): Boolean = micros == nearest(micros)

  /** A time in an answer; none if it is null or missing. */
  def time(node: JsonNode): Option[Long] = Option.when(node.isIntegralNumber)(node.asLong)

  /** The label of an operator, for people. The server refuses a whole report because of one invalid label. */
  def putLabel(operator: ObjectNode, words: String): Unit = {
    val shown = words.codePoints.toArray.map { point =>
      if (Unprintable(Character.getType(point).toByte)) '?'.toInt else point
    }
    operator.put(Label, OperatorWords.cut(new String(shown, 0, shown.length))): Unit
  }

  private val Unprintable = {
    import Character.{CONTROL, FORMAT, LINE_SEPARATOR, PARAGRAPH_SEPARATOR, SURROGATE}
    Set(CONTROL, FORMAT, LINE_SEPARATOR, PARAGRAPH_SEPARATOR, SURROGATE)
  }

  private def drop(body: ObjectNode, fields: Set[String]): Unit = if (fields.nonEmpty) {
    body.remove(fields.asJava): Unit
    body.path("operators").elements.asScala.foreach {
      case operator: ObjectNode => operator.remove(fields.asJava): Unit
      case _ =>
    }
  }

  private val FirstPause = Duration.ofMillis(500).toNanos
  private val LongestPause = Duration.ofSeconds(30).toNanos

  private val json = new ObjectMapper

  def newBody(): ObjectNode = json.createObjectNode()
}

/** Sends the requests of one run of a query to the watermark servers that it names. They are replicas over
  * one store: each sees what the others have accepted. So any of them may receive any request, and two of them may
  * receive the same report.
  *
  * {{{
  *   request ──> a    no connection, no whole answer within 2 s, 5xx      the next one gets it
  *           ──> b    200                                                 b is tried first from now on
  *                    4xx                                                 the same; each server would refuse
  * }}}
  *
  * Every answer has the id of its server's store. If two servers have different stores, the query ends: each
  * would know a part of its progress. Servers that are there when the query starts are compared then, the
  * others when they first answer.
  *
  * It is thread-safe: the sources, the sink and the heartbeats of a run share it, so that one of them finds out
  * for all which server answers.
  */
private[watermark] final class ServerFailover(server: ServerSettings) extends Logging {
  import ServerFailover._

  private val urls = server.urls.map(_.stripSuffix("/"))
  private val application = s"/v1/apps/${WireName.inUrl(server.app)}"

  @volatile private var answeredLast = 0

  // The last answer of each server: it may come back with another store.
  private val stores = new ConcurrentHashMap[String, String]
  private lazy val compared: Unit = askForStores()

  /** Asks one server after the other, beginning with the one that answered last.
    *
    * @param path   below the application's, with parameters
    * @param finish gives the request its method, body and headers
    * @return an answer with a status below 500
    * @throws java.io.IOException if none answers; with several servers it says why each hasn't
    * @throws io.tailrace.common.TailraceStateException TAILRACE_WATERMARK_STORES_DIFFER
    */
  def send(path: String)(finish: HttpRequest.Builder => HttpRequest.Builder): HttpResponse[String] = {
    if (urls.size > 1) compared
    val first = answeredLast

    @tailrec
    def next(left: List[Int], failed: List[Failed]): HttpResponse[String] = left match {
      case Nil => throw allFailed(failed.reverse)
      case i :: others =>
        ask(urls(i), path, finish) match {
          case Right(answer) =>
            if (failed.nonEmpty) goOnAt(i, failed.reverse)
            answer
          case Left(failure) => next(others, Failed(urls(i), failure) :: failed)
        }
    }
    next(urls.indices.map(i => (first + i) % urls.size).toList, Nil)
  }

  private def goOnAt(answers: Int, failed: Seq[Failed]): Unit = {
    answeredLast = answers
    logWarning(
      s"TAILRACE_WATERMARK_SERVER_REPLACED: ${urls(answers)} is asked from now on: ${told(failed)}"
    )
  }

  private def ask(
      url: String,
      path: String,
      finish: HttpRequest.Builder => HttpRequest.Builder
  ): Either[IOException, HttpResponse[String]] =
    try {
      val request = HttpRequest.newBuilder(URI.create(url + application + path)).timeout(Timeout)
      server.token.foreach(token => request.header("Authorization", s"Bearer $token"))
      val answer = whole(begun(finish(request)))
      note(url, answer)
      compare()
      if (answer.statusCode < 500) Right(answer) else Left(new IOException(statusOf(answer)))
    } catch {
      case e: IOException => Left(e)
    }

  private def allFailed(failed: Seq[Failed]): IOException = failed match {
    case Seq(alone) => alone.failure
    case several =>
      val all = new IOException(told(several))
      several.foreach(one => all.addSuppressed(one.failure))
      all
  }

  /** Asks all servers at once which stores they have, so that a wrong address is found when the query starts,
    * not in the night in which another server is lost.
    */
  private def askForStores(): Unit = {
    val asked = urls.map { url =>
      url -> begun(HttpRequest.newBuilder(URI.create(s"$url/healthz")).timeout(Timeout).GET())
    }
    asked.foreach { case (url, answer) =>
      try note(url, whole(answer))
      catch { case e: IOException => logInfo(s"The watermark server $url doesn't answer: $e") }
    }
    compare()
  }

  /** A server of an earlier release doesn't say which store it has. */
  private def note(url: String, answer: HttpResponse[String]): Unit =
    answer.headers.firstValue(StoreHeader).ifPresent(store => stores.put(url, store): Unit)

  private def compare(): Unit = {
    val known = urls.flatMap(url => Option(stores.get(url)).map(url -> _))
    known.find(_._2 != known.head._2).foreach { case (url, store) =>
      throw WatermarkErrors.storesDiffer(known.head._1, known.head._2, url, store)
    }
  }
}

private[watermark] object ServerFailover {

  /** The longest wait for an answer of one server. */
  val Timeout: Duration = Duration.ofSeconds(2)

  private val StoreHeader = "Tailrace-Store"
  private val MostOfAnAnswer = 300
  private lazy val http =
    HttpClient.newBuilder().connectTimeout(Timeout).version(HttpClient.Version.HTTP_1_1).build()

  private final case class Failed(url: String, failure: IOException)

  private def told(failed: Seq[Failed]): String =
    failed.map(one => s"${one.url} has not answered (${one.failure})").mkString("; ")

  def statusOf(answer: HttpResponse[String]): String =
    s"status ${answer.statusCode}: ${answer.body.take(MostOfAnAnswer)}"

  private def begun(request: HttpRequest.Builder): CompletableFuture[HttpResponse[String]] =
    http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofString(UTF_8))

  /** The timeout here covers the whole answer. The HTTP client's own are of the same length, and cover the
    * connection and the headers: any may be first, so all give the same error.
    */
  private def whole(answer: CompletableFuture[HttpResponse[String]]): HttpResponse[String] =
    try answer.get(Timeout.toMillis, TimeUnit.MILLISECONDS)
    catch {
      case e: TimeoutException => throw tooLate(e)
      case e: ExecutionException =>
        throw (e.getCause match {
          case e: HttpTimeoutException => tooLate(e)
          case failed: IOException => failed
          case other => new IOException(other)
        })
    } finally answer.cancel(true): Unit

  private def tooLate(cause: Exception): IOException =
    new IOException(s"no whole answer within ${Timeout.toMillis} ms", cause)
}
