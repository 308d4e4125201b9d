package io.tailrace.watermark

import java.nio.charset.StandardCharsets.UTF_8

import io.tailrace.common.{Durations, Errors, OnFuture}

/** How [[Tailrace.accurateWatermark]] finds the watermark. Names and meanings are those of the Python package.
  *
  * @param completeness the share of hosts that must have passed a time: "99.9%" or "0.999"
  * @param hosts        the roster: hosts that count, seen or not; none: those that have been seen so far
  * @param idleAfter    a host that is silent for so long, while others go on and nothing is unread, doesn't count until it is
  *                     back; a duration
  * @param futureLimit  how far ahead of the batch's clock an event time may be; a duration
  * @param onFuture     "clamp", "divert" or "fail": what is done about rows further ahead than that
  * @param delay        by which the watermark stays behind; a duration
  * @param server       a watermark server, "http://host:port", whose word counts; none: the query's own progress
  * @param app          the application at the server
  * @param operator     the source's name in it
  * @param token        the server's bearer token
  * @param name         of the source in the query's checkpoint and progress
  */
final case class WatermarkOptions(
    completeness: String = "99.9%",
    hosts: Option[Seq[String]] = None,
    idleAfter: Option[String] = None,
    futureLimit: Option[String] = None,
    onFuture: String = "clamp",
    delay: String = "0 seconds",
    server: Option[String] = None,
    app: Option[String] = None,
    operator: String = "source",
    token: Option[String] = None,
    name: String = "watermark"
) {
  import WatermarkOptions._

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: ProgressSettings = {
    val share = Completeness
      .parse(completeness)
      .getOrElse(throw Errors.watermarkOptionInvalid("completeness", completeness, shares))
    if (hosts.exists(_.isEmpty)) throw Errors.watermarkRosterEmpty()
    if (server.isDefined) hosts.map(_.distinct).foreach(checkRoster)
    val action = OnFuture.values
      .find(_.name == onFuture)
      .getOrElse(throw Errors.watermarkOptionInvalid("on_future", onFuture, "clamp, divert or fail"))
    if (futureLimit.isEmpty && action != OnFuture.Clamp) throw WatermarkErrors.futureLimitMissing(onFuture)
    if (!name.matches("[A-Za-z0-9_-]{1,100}")) {
      throw Errors.watermarkOptionInvalid("name", name, "1 to 100 letters, digits, _ and -")
    }
    ProgressSettings(
      name,
      share,
      duration("delay", delay) / 1000,
      hosts.map(_.distinct),
      idleAfter.map(text => positive("idle_after", text) / 1000),
      futureLimit.map(duration("future_limit", _)),
      action,
      ServerOptions(server, app, operator, token).settings
    )
  }

  /** Of a number that only lacks its sign it is said how it is written. */
  private def shares: String = {
    val meant = s"${completeness.trim}%"
    val example = if (Completeness.parse(meant).isDefined) meant else "99.9%"
    s"\"$example\", or a share such as \"0.999\": above 0% and at most 100%"
  }

  /** A server refuses the report of a longer one as a whole, again and again. */
  private def checkRoster(names: Seq[String]): Unit = {
    val bytes = names.map(name => WireName.encode(name).getBytes(UTF_8).length + 3L).sum
    if (names.size > MostHostsAtServer || bytes > MostRosterBytes) {
      val allowed = s"at most $MostHostsAtServer of them in $MostRosterBytes bytes with a server"
      throw Errors.watermarkOptionInvalid("hosts", s"${names.size} names in $bytes bytes", allowed)
    }
  }

  private def positive(argument: String, text: String): Long = {
    val micros = duration(argument, text)
    if (micros < 1000) throw Errors.watermarkOptionInvalid(argument, text, Duration)
    micros
  }

  private def duration(argument: String, text: String): Long =
    Durations
      .read(text)
      .filter(_ >= 0)
      .getOrElse(throw Errors.watermarkOptionInvalid(argument, text, Duration))
}

object WatermarkOptions {
  private val Duration = "a duration such as 10 minutes"
  private val MostHostsAtServer = 100000
  private val MostRosterBytes = 8000000L
}
