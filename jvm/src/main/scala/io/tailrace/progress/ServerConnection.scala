package io.tailrace.progress

import java.io.IOException
import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.Duration

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** Requests to a watermark server, of one application. */
private[progress] final class ServerConnection(server: ServerSettings) {
  import ServerConnection._

  private val application = s"${server.url.stripSuffix("/")}/v1/apps/${encoded(server.app)}"

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
    val response = http.send(request.build(), HttpResponse.BodyHandlers.ofString(UTF_8))
    if (response.statusCode != 200)
      throw new IOException(s"status ${response.statusCode}: ${response.body.take(MostOfAnAnswer)}")
    json.readTree(response.body)
  }
}

private[progress] object ServerConnection {

  /** What is waited for an answer at most. */
  val Timeout: Duration = Duration.ofSeconds(2)

  /** The greatest whole number that every reader of JSON has exactly; the year 2255. */
  val LatestTime: Long = (1L << 53) - 1

  private val MostOfAnAnswer = 300
  private val json = new ObjectMapper
  private lazy val http =
    HttpClient.newBuilder().connectTimeout(Timeout).version(HttpClient.Version.HTTP_1_1).build()

  def newBody(): ObjectNode = json.createObjectNode()

  /** As a part of a path, or a parameter. */
  def encoded(text: String): String = java.net.URLEncoder.encode(text, UTF_8).replace("+", "%20")
}
