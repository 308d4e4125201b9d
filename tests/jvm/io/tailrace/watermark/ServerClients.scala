package io.tailrace.watermark

import org.scalatest.concurrent.Eventually.{interval, timeout}
import org.scalatest.concurrent.PatienceConfiguration.{Interval, Timeout}
import org.scalatest.time.{Millis, Seconds, Span}

import io.tailrace.common.Policy
import io.tailrace.testkit.WatermarkServerStub

/** A client of a watermark server, and the server. */
trait ServerClients {
  protected val patient: Timeout = timeout(Span(20, Seconds))
  protected val often: Interval = interval(Span(100, Millis))

  protected def client(
      server: WatermarkServerStub,
      token: Option[String] = None,
      roster: Option[Seq[String]] = None,
      idleAfterMs: Option[Long] = None,
      labels: Map[String, String] = Map.empty,
      logs: Option[String] = None
  ): ServerClient = {
    val made = settings(server, token, roster, idleAfterMs, logs)
    client(
      made,
      new Reporter(made.server.get, "query-1", "run-1", () => true, labels, query = Some("hourly"))
    )
  }

  protected def settings(
      server: WatermarkServerStub,
      token: Option[String] = None,
      roster: Option[Seq[String]] = None,
      idleAfterMs: Option[Long] = None,
      logs: Option[String] = None
  ): ProgressSettings = ProgressSettings(
    "watermark",
    Completeness.parse("99.9%").get,
    0,
    roster,
    idleAfterMs,
    None,
    Policy.Clamp,
    Some(ServerSettings(Seq(server.url), "my app", "clicks", token, logs))
  )

  protected def client(settings: ProgressSettings, reporter: Reporter): ServerClient =
    new ServerClient(
      settings.server.get,
      settings,
      reporter,
      () => QueryReads(Seq("file:/logs", "odd\n"), Nil),
      () => Seq("Kafka: clicks", "odd\n\u202e")
    )

  protected def withServer(body: WatermarkServerStub => Unit): Unit = {
    val server = new WatermarkServerStub().start()
    try body(server)
    finally server.close()
  }

  protected def table(hosts: (String, Long)*): HostTable = {
    val made = new HostTable
    hosts.foreach { case (name, time) => made.raise(made.add(name), time) }
    made
  }
}
