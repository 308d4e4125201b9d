package io.tailrace.watermark

import java.io.IOException
import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.time.Duration
import java.util.HexFormat
import java.util.concurrent.{ExecutionException, TimeUnit, TimeoutException}

import org.apache.spark.internal.Logging

import io.tailrace.driver.DriverClock

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** Sends the requests of one application to a watermark server. While the server is away, attempts become
  * rarer. A batch waits at most [[ServerConnection.Timeout]] for an attempt.
  */
private[watermark] final class ServerConnection(server: ServerSettings) extends Logging {
  import ServerConnection._

  // A sink has two threads. A race between them costs one attempt.
  @volatile private var failures = 0
  @volatile private var nextAttempt = 0L

  // The last refusal: repeated, it isn't logged again.
  @volatile private var refusal = ""

  private val reporter = s"'${server.operator}' of '${server.app}'"
  private val application = s"${server.url.stripSuffix("/")}/v1/apps/${encoded(server.app)}"

  /** Runs requests, unless it is too early for another attempt.
    *
    * @param meanwhile the consequence of a failure, for the warning
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
          // A difference is compared, because the clock may have any value.
          nextAttempt = DriverClock.nanos + Math.min(LongestPause, FirstPause << Math.min(failures - 1, 10))
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
          s"TAILRACE_WATERMARK_REPORT_REFUSED: ${server.url} refuses the report of $reporter, and is asked " +
            s"again without another warning: ${refused.getMessage}. $meanwhile"
        )
      }
    case _ =>
      refusal = ""
      logWarning(
        s"TAILRACE_WATERMARK_SERVER_AWAY: ${server.url} has not taken the report of $reporter: $failure. " +
          meanwhile
      )
  }

  /** @throws java.io.IOException if there is no answer, or its status isn't 200 */
  def report(body: ObjectNode): JsonNode =
    send(
      request("/reports")
        .header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofByteArray(json.writeValueAsBytes(body)))
    )

  /** @param path below the application's, with parameters
    * @throws java.io.IOException if there is no answer, or its status isn't 200
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

  /** Two codes end the query, because another query or run reports the same. After other refusals the server
    * is asked again: somebody may raise a limit or remove something.
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

  /** The timeout here covers the whole answer. The HTTP client's own covers only the headers. */
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

/** The server refuses a report that contradicts its state or exceeds a limit. The message is the server's. */
private[watermark] final class RefusedReportException(detail: String) extends IOException(detail)

private[watermark] object ServerConnection {

  /** The longest wait for an answer. */
  val Timeout: Duration = Duration.ofSeconds(2)

  // The greatest integer that every JSON parser reads exactly. As a time it is in 2255.
  private val LatestTime = (1L << 53) - 1

  /** The nearest time that the protocol can express, in microseconds. */
  def nearest(micros: Long): Long = Math.max(0L, Math.min(micros, LatestTime))

  /** Whether the protocol can express a time. */
  def isTime(micros: Long): Boolean = micros == nearest(micros)

  /** A time in an answer; none if it is null or missing. */
  def time(node: JsonNode): Option[Long] = Option.when(node.isIntegralNumber)(node.asLong)

  private val FirstPause = Duration.ofMillis(500).toNanos
  private val LongestPause = Duration.ofSeconds(30).toNanos

  private val MostOfAnAnswer = 300
  private val json = new ObjectMapper
  private lazy val http =
    HttpClient.newBuilder().connectTimeout(Timeout).version(HttpClient.Version.HTTP_1_1).build()

  def newBody(): ObjectNode = json.createObjectNode()

  /** Encodes a part of a path or a parameter. */
  def encoded(text: String): String = java.net.URLEncoder.encode(text, UTF_8).replace("+", "%20")
}

/** Encodes names in reports to a watermark server. The server accepts 1 to 200 characters without control
  * characters, and refuses a whole report for one bad name: the name of one host would block all hosts.
  *
  * {{{
  *   ""       %          "a\nb"    a%0Ab
  *   "50%"    50%25      201 h's   183 of them, ~, 16 digits of the SHA-256 of the 201
  * }}}
  */
private[tailrace] object WireName {

  /** The most code points of a name. The server counts code points too. */
  val Longest = 200

  private val Empty = "%"
  private val Kept = 183

  /** Whether the server accepts the text as it is. */
  def isName(text: String): Boolean = {
    val points = text.codePoints.toArray
    points.nonEmpty && points.length <= Longest &&
    !points.exists(p => Character.isISOControl(p) || Character.getType(p) == Character.SURROGATE)
  }

  /** Encodes any text. Different texts have different names. */
  def encode(text: String): String =
    if (text.isEmpty) Empty
    else {
      val plain = if (text.chars.anyMatch(c => isEscaped(c))) escape(text) else text
      if (plain.length <= Longest || plain.codePointCount(0, plain.length) <= Longest) plain
      else plain.substring(0, plain.offsetByCodePoints(0, Kept)) + "~" + digest(text)
    }

  /** Decodes a name. The end of a long text is not in its name. */
  def decode(name: String): String =
    if (name == Empty) ""
    else if (!name.contains('%')) name
    else
      try java.net.URLDecoder.decode(name.replace("+", "%2B"), UTF_8)
      // A long name may have been cut within an escape.
      catch { case _: IllegalArgumentException => name }

  /** The first 16 hexadecimal digits of a text's SHA-256. */
  def digest(text: String): String =
    HexFormat.of.formatHex(MessageDigest.getInstance("SHA-256").digest(text.getBytes(UTF_8)), 0, 8)

  private def isEscaped(char: Int): Boolean = char == '%' || Character.isISOControl(char)

  private def escape(text: String): String =
    text.flatMap { c =>
      if (isEscaped(c.toInt)) c.toString.getBytes(UTF_8).map(b => f"%%${b & 0xff}%02X").mkString
      else c.toString
    }
}
