package io.tailrace.watermark

import java.io.IOException
import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.Duration
import java.util.concurrent.{ExecutionException, TimeUnit, TimeoutException}

import org.apache.spark.internal.Logging

import io.tailrace.driver.DriverClock

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** Requests to a watermark server, of one application. While the server is away attempts become rarer, so that a batch
  * waits for none of them longer than [[ServerConnection.Timeout]].
  */
private[watermark] final class ServerConnection(server: ServerSettings) extends Logging {
  import ServerConnection._

  // A sink asks in two threads. What one of them overlooks costs an attempt.
  @volatile private var failures = 0
  @volatile private var nextAttempt = 0L

  // What it was refused with last: said once, however often it is asked again.
  @volatile private var refusal = ""

  private val application = s"${server.url.stripSuffix("/")}/v1/apps/${encoded(server.app)}"

  /** Does some requests, if it is time for an attempt.
    *
    * @param meanwhile what a failure means, for the warning of it
    * @return none while the server is away
    */
  def attempt[T](meanwhile: => String)(requests: => T): Option[T] =
    if (DriverClock.nanos - nextAttempt < 0) None
    else
      try {
        val answer = requests
        if (failures > 0) logInfo(s"The watermark server ${server.url} answers again")
        failures = 0
        refusal = ""
        Some(answer)
      } catch {
        case e: IOException =>
          failures += 1
          // Subtracted and compared: the clock may be any number.
          nextAttempt = DriverClock.nanos + Math.min(LongestPause, FirstPause << Math.min(failures - 1, 10))
          warn(e, meanwhile)
          None
      }

  private def warn(failure: IOException, meanwhile: String): Unit = failure match {
    case refused: RefusedReportException =>
      // How many there are may be another number each time.
      val kind = refused.getMessage.filterNot(_.isDigit)
      if (kind != refusal) {
        refusal = kind
        logWarning(
          s"TAILRACE_WATERMARK_REPORT_REFUSED: ${server.url} refuses the report of '${server.operator}' of " +
            s"'${server.app}', and is asked again without another warning: ${refused.getMessage}. $meanwhile"
        )
      }
    case _ =>
      refusal = ""
      logWarning(
        s"TAILRACE_WATERMARK_SERVER_AWAY: ${server.url} has not taken the report of '${server.operator}' of " +
          s"'${server.app}': $failure. $meanwhile"
      )
  }

  /** @throws java.io.IOException if there is no answer, or another one than 200 */
  def report(body: ObjectNode): JsonNode =
    send(
      request("/reports")
        .header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofByteArray(json.writeValueAsBytes(body)))
    )

  /** @param path below the application's, with parameters
    * @throws java.io.IOException if there is no answer, or another one than 200
    */
  def read(path: String): JsonNode = send(request(path).GET())

  private def request(path: String): HttpRequest.Builder = {
    val request = HttpRequest.newBuilder(URI.create(application + path)).timeout(Timeout)
    server.token.foreach(token => request.header("Authorization", s"Bearer $token"))
    request
  }

  private def send(request: HttpRequest.Builder): JsonNode = {
    val response = exchange(request)
    if (response.statusCode == 409) refuse(response.body)
    if (response.statusCode != 200)
      throw new IOException(s"status ${response.statusCode}: ${response.body.take(MostOfAnAnswer)}")
    json.readTree(response.body)
  }

  /** What the server knows contradicts the request. Of some codes another attempt won't mend it: somebody else reports what
    * this query does. Without a code a person may: a limit is exceeded, and something has to be removed.
    */
  private def refuse(body: String): Unit = {
    val problem = json.readTree(body)
    def detail = problem.path("detail").asText
    problem.path("code").asText match {
      case "TAILRACE_WATERMARK_REPORTER_CONFLICT" =>
        throw WatermarkErrors.reporterConflict(server.url, server.app, detail)
      case "TAILRACE_WATERMARK_RUN_REPLACED" =>
        throw WatermarkErrors.runReplaced(server.url, server.app, detail)
      case _ if detail.nonEmpty => throw new RefusedReportException(detail)
      case _ =>
    }
  }

  /** The timeout of a request ends with the headers of its answer: here it is that of the whole exchange. */
  private def exchange(request: HttpRequest.Builder): HttpResponse[String] = {
    val answer = http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofString(UTF_8))
    try answer.get(Timeout.toMillis, TimeUnit.MILLISECONDS)
    catch {
      case e: TimeoutException => throw new IOException(s"no whole answer within ${Timeout.toMillis} ms", e)
      case e: ExecutionException =>
        throw (e.getCause match {
          case failed: IOException => failed
          case other => new IOException(other)
        })
    } finally answer.cancel(true): Unit
  }
}

/** The server is there, and a report contradicts what it knows, or exceeds a limit: its words are the message. */
private[watermark] final class RefusedReportException(detail: String) extends IOException(detail)

private[watermark] object ServerConnection {

  /** What is waited for an answer at most. */
  val Timeout: Duration = Duration.ofSeconds(2)

  /** The greatest whole number that every reader of JSON has exactly; the year 2255. */
  val LatestTime: Long = (1L << 53) - 1

  /** Whether the protocol has a number for a time, in microseconds. */
  def isTime(micros: Long): Boolean = micros >= 0 && micros <= LatestTime

  /** The nearest time that the protocol has a number for. */
  def nearest(micros: Long): Long = Math.max(0L, Math.min(micros, LatestTime))

  private val FirstPause = Duration.ofMillis(500).toNanos
  private val LongestPause = Duration.ofSeconds(30).toNanos

  private val MostOfAnAnswer = 300
  private val json = new ObjectMapper
  private lazy val http =
    HttpClient.newBuilder().connectTimeout(Timeout).version(HttpClient.Version.HTTP_1_1).build()

  def newBody(): ObjectNode = json.createObjectNode()

  /** As a part of a path, or a parameter. */
  def encoded(text: String): String = java.net.URLEncoder.encode(text, UTF_8).replace("+", "%20")
}
