package io.tailrace.testkit

import java.net.InetSocketAddress
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{CopyOnWriteArrayList, CountDownLatch, Executors}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.sun.net.httpserver.{HttpExchange, HttpServer}

/** A watermark server whose answers the test decides. The test also stops and starts it. */
final class WatermarkServerStub extends AutoCloseable {
  private val json = new ObjectMapper
  private val received = new CopyOnWriteArrayList[JsonNode]
  private val said = new CopyOnWriteArrayList[JsonNode]
  private var server: HttpServer = _
  private var port = 0

  @volatile var status = 200

  /** The id of the store, in each answer; none as in earlier releases. */
  @volatile var store: Option[String] = None

  /** The number of requests that have come, but for looks at its health. */
  def asked: Int = requests.get
  private val requests = new AtomicInteger

  /** Requests are answered when this latch is open. */
  @volatile var answers = new CountDownLatch(0)
  @volatile var needRoster = false

  /** Asks for the roster until one has come, as a server does. */
  @volatile var needsUntilTold = false
  @volatile private var hasRoster = false
  def forgetRoster(): Unit = hasRoster = false

  /** One report fails after `reports` that succeed. */
  def failAfter(reports: Int): Unit = untilFailure.set(reports)
  private val untilFailure = new AtomicInteger(-1)
  @volatile var token: String = _

  /** Refuses reports with labels, as earlier releases do. */
  @volatile var refusesLabels = false

  /** Fields of a report or an operator that it refuses, one a time, as earlier releases do. */
  @volatile var unknownFields: Seq[String] = Nil

  /** How many micro-batches of the source it had been told of; none as in earlier releases. */
  @volatile var batches: Option[Long] = None

  /** Refuses each report with this code. */
  @volatile var conflict: Option[String] = None
  @volatile var warnings: Seq[String] = Nil

  /** The number of refused requests. */
  def refused: Int = refusals.get
  private val refusals = new AtomicInteger

  /** Sends the headers and half of an answer, and never the rest. */
  @volatile var stopsHalfway = false

  /** The low watermark of the source that reports, in microseconds. */
  @volatile var low: Option[Long] = None

  @volatile var idleHosts: Seq[String] = Nil

  /** The low watermark of the application, in microseconds. */
  @volatile var globalLow: Option[Long] = None

  def url: String = s"http://127.0.0.1:$port"

  /** Starts the server. After `close`, it has the same port again. */
  def start(): WatermarkServerStub = {
    server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0)
    server.setExecutor(Executors.newCachedThreadPool { (task: Runnable) =>
      val thread = new Thread(task, "watermark-server-stub")
      thread.setDaemon(true)
      thread
    })
    server.createContext("/", answer(_))
    server.start()
    port = server.getAddress.getPort
    this
  }

  private def answer(exchange: HttpExchange): Unit = {
    val body = json.readTree(exchange.getRequestBody.readAllBytes())
    val isLook = exchange.getRequestURI.getPath == "/healthz"
    if (!isLook) requests.incrementAndGet(): Unit
    store.foreach(exchange.getResponseHeaders.set("Tailrace-Store", _))
    answers.await()
    val authorized = token == null || exchange.getRequestHeaders.getFirst("Authorization") == s"Bearer $token"
    val code =
      if (isLook) 204
      else if (exchange.getRequestURI.getPath != "/v1/apps/my app/reports") 404
      else if (authorized && conflict.isDefined) 409
      else if (authorized && refusesLabels && labels(body).nonEmpty) 422
      else if (authorized && unknown(body).nonEmpty) 422
      else if (authorized && untilFailure.getAndDecrement() == 0) 503
      else if (authorized) status
      else 401
    val isReport = !body.path("operators").isEmpty
    if (code == 200 && isReport) received.add(body)
    else if (code == 200) said.add(body)
    val operator = body.at("/operators/0/operator").asText
    val root = json.createObjectNode()
    val answered = root.putObject("operators").putObject(operator).putNull("input_low_watermark")
    low.fold(answered.putNull("output_low_watermark"))(answered.put("output_low_watermark", _))
    batches.foreach(answered.put("batches", _))
    hasRoster ||= body.at("/operators/0").has("roster")
    root.put("need_roster", needRoster || (needsUntilTold && !hasRoster))
    val idle = root.putObject("idle_hosts").putArray(operator)
    idleHosts.foreach(idle.add)
    globalLow.foreach(root.put("global_low_watermark", _))
    val told = root.putArray("warnings")
    warnings.foreach(told.add)
    val refusal = conflict.map(c => json.createObjectNode().put("code", c).put("detail", "it is the other's"))
    if (code == 409 || code == 422) refusals.incrementAndGet(): Unit
    val bytes =
      if (code == 409 && refusal.isDefined) json.writeValueAsBytes(refusal.get)
      else if (code == 200) json.writeValueAsBytes(root)
      else if (code == 422 && refusesLabels) """{"detail":"Value error, 'label' is no field"}""".getBytes
      else if (code == 422 && unknown(body).nonEmpty)
        s"""{"detail":"Value error, '${unknown(body).get}' is no field"}""".getBytes
      else "the reason".getBytes
    exchange.sendResponseHeaders(code, if (isLook) -1 else bytes.length.toLong)
    if (isLook) exchange.close()
    else if (stopsHalfway) {
      exchange.getResponseBody.write(bytes, 0, bytes.length / 2)
      exchange.getResponseBody.flush()
    } else {
      exchange.getResponseBody.write(bytes)
      exchange.close()
    }
  }

  private def unknown(body: JsonNode): Option[String] =
    unknownFields.find(field => body.has(field) || body.at("/operators/0").has(field))

  override def close(): Unit = server.stop(0)

  def reports: Seq[JsonNode] = received.asScala.toSeq

  /** The requests without operators: heartbeats, and the ends of runs. */
  def others: Seq[JsonNode] = said.asScala.toSeq

  /** What the operators of a report do, by their names. */
  def labels(report: JsonNode): Map[String, String] = report
    .path("operators")
    .elements
    .asScala
    .filter(_.has("label"))
    .map(o => o.get("operator").asText -> o.get("label").asText)
    .toMap

  /** The hosts of a report, and their times. */
  def progress(report: JsonNode): Map[String, Long] =
    report.at("/operators/0/progress").properties.asScala.map(e => e.getKey -> e.getValue.asLong).toMap
}
