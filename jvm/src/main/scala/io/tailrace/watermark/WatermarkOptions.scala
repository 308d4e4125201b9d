package io.tailrace.watermark

import java.net.{URI, URISyntaxException}
import java.nio.charset.StandardCharsets.UTF_8

import io.tailrace.common.{Arguments, Policy}

/** The arguments of [[io.tailrace.api.Tailrace.accurateWatermark]] and `stampedWatermark`, without the
  * columns. Names and defaults are those of Python.
  *
  * @param completeness the share of hosts that must have passed a time: "99.9%" or "0.999"
  * @param hosts        the roster: the hosts that count, seen or not; none: the hosts that have been seen
  * @param idleAfter    a duration; a host that is silent for longer, while other hosts have rows and no row
  *                     is unread, doesn't count until it has rows again
  * @param futureLimit  how far ahead of the batch's clock an event time may be; a duration
  * @param onFuture     "clamp", "mark" or "fail": what happens to rows further ahead
  * @param delay        how far the watermark stays behind; a duration
  * @param server       a watermark server, "http://host:port", which decides; none: the query decides alone
  * @param app          the application at the server
  * @param operator     the source's name in it
  * @param token        the server's bearer token
  * @param name         the name of the source in the checkpoint and in the query's progress
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
    name: String = WatermarkOptions.Name
) {
  import WatermarkOptions._

  /** @param arguments of the call whose options they are
    * @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed
    */
  private[tailrace] def settings(arguments: Arguments): ProgressSettings = {
    def badShare = arguments.invalid("completeness", completeness, shares)
    val share = Completeness.parse(completeness).getOrElse(throw badShare)
    if (hosts.exists(_.isEmpty)) throw arguments.invalid("hosts", "", "one name or more, or left out")
    if (server.isDefined) hosts.map(_.distinct).foreach(checkRoster(arguments, _))
    val future = arguments.choice("on_future", onFuture, Policy.onFuture)
    if (futureLimit.isEmpty && future != Policy.Clamp)
      throw arguments.needs("on_future", onFuture, Policy.FutureLimit)
    ProgressSettings(
      arguments.name(name),
      share,
      arguments.duration("delay", delay) / 1000,
      hosts.map(_.distinct),
      idleAfter.map(arguments.millis("idle_after", _)),
      futureLimit.map(arguments.duration("future_limit", _)),
      future,
      ServerOptions(arguments, server, app, operator, token).settings
    )
  }

  /** The allowed values, for the error. A number that only lacks its percent sign is the example. */
  private def shares: String = {
    val meant = s"${completeness.trim}%"
    val example = if (Completeness.parse(meant).isDefined) meant else "99.9%"
    s"'$example', or a share such as 0.999: above 0% and at most 100%"
  }

  /** A server would refuse each report with a longer roster. */
  private def checkRoster(arguments: Arguments, names: Seq[String]): Unit = {
    val bytes = names.map(name => WireName.encode(name).getBytes(UTF_8).length + 3L).sum
    val allowed = s"at most $MostHostsAtServer names in $MostRosterBytes bytes with a server"
    if (names.size > MostHostsAtServer || bytes > MostRosterBytes)
      throw arguments.invalid("hosts", s"${names.size} names in $bytes bytes", allowed)
  }
}

object WatermarkOptions {
  private[tailrace] val accurate = new Arguments("tailrace.accurate_watermark")
  private[tailrace] val stamped = new Arguments("tailrace.stamped_watermark")
  private[watermark] val stamp = new Arguments("tailrace.stamp_watermark")

  private[watermark] val Name = "watermark"
  private val MostHostsAtServer = 100000
  private val MostRosterBytes = 8000000L
}

/** The settings of one source.
  *
  * @param name        of the source's directory in the checkpoint, and of its numbers in the query's progress
  * @param delayMs     how far Spark's watermark stays behind the low watermark
  * @param roster      the hosts that count; none: those that have been seen
  * @param idleAfterMs a host that is silent for so long doesn't count; none: each host counts for ever
  * @param futureLimitMicros how far ahead of the batch's clock an event time may be; none: without a limit
  * @param server      the watermark server that decides; none: the query decides alone
  * @param isStamped   whether the hosts are partitions of a topic, and their times stamps
  */
final case class ProgressSettings(
    name: String,
    completeness: Completeness,
    delayMs: Long,
    roster: Option[Seq[String]],
    idleAfterMs: Option[Long],
    futureLimitMicros: Option[Long],
    onFuture: Policy,
    server: Option[ServerSettings],
    isStamped: Boolean = false
) {

  /** A digest of the roster. It is the same for the same hosts in another order. */
  lazy val rosterVersion: String =
    WireName.digest(roster.getOrElse(Nil).map(WireName.encode).sorted.mkString("\n"))
}

/** The options of a call that name a watermark server. */
private[tailrace] final case class ServerOptions(
    arguments: Arguments,
    server: Option[String],
    app: Option[String],
    operator: String,
    token: Option[String]
) {

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  def settings: Option[ServerSettings] = {
    // A user who sets one of these expects that the query reports.
    if (server.isEmpty)
      Seq("app" -> app, "token" -> token).foreach { case (argument, value) =>
        if (value.isDefined) throw arguments.needs(argument, "set", ServerOptions.Needed)
      }
    server.map(settingsAt)
  }

  private def settingsAt(url: String): ServerSettings = {
    checkAddress(url)
    def needed = "app, a name that all queries of the application give"
    val application = app.getOrElse(throw arguments.needs("server", url, needed))
    // It is a part of the URL path. Servers take an encoded slash there for a slash.
    if (!WireName.isName(application) || application.contains('/'))
      throw arguments.invalid("app", application, "1 to 200 characters, no / among them")
    ServerOptions.checkName(arguments, "operator", operator)
    // Checked here, because the HTTP client's error would show it.
    if (token.exists(t => !t.matches("[!-~]([ -~]*[!-~])?")))
      throw arguments.invalid("token", "not shown here", "printable ASCII without spaces around it")
    ServerSettings(url, application, operator, token)
  }

  private def checkAddress(url: String): Unit = {
    val parsed =
      try new URI(url)
      catch { case _: URISyntaxException => new URI("") }
    val shown = if (url.exists("@?#".contains(_))) "not shown here" else url
    val isAddress = Seq("http", "https").contains(parsed.getScheme) && parsed.getHost != null &&
      parsed.getUserInfo == null && Seq("", "/").contains(parsed.getRawPath) && parsed.getRawQuery == null &&
      parsed.getRawFragment == null && (parsed.getPort == -1 || parsed.getPort > 0 && parsed.getPort < 65536)
    if (!isAddress) throw arguments.invalid("server", shown, "http://host:port")
  }
}

private[tailrace] object ServerOptions {

  /** The argument that `app`, `token` and `upstreams` need. */
  val Needed = "server, for instance server='http://host:port'"

  /** A server would refuse each report with another name. */
  def checkName(arguments: Arguments, argument: String, name: String): Unit =
    if (!WireName.isName(name)) {
      val allowed = s"1 to ${WireName.Longest} characters without control characters"
      throw arguments.invalid(argument, name, allowed)
    }
}

/** The address of a watermark server, and the reporter's name there.
  *
  * @param url      "http://host:port"
  * @param app      the application whose sources, operators and sinks share a global low watermark
  * @param operator this source's name in it
  * @param token    the server's bearer token, if it wants one
  */
final case class ServerSettings(url: String, app: String, operator: String, token: Option[String]) {

  /** Whether the other reporter reports to the same application. */
  def isBeside(other: ServerSettings): Boolean =
    url.stripSuffix("/") == other.url.stripSuffix("/") && app == other.app

  // Spark shows plans in its pages. The token must not be there.
  override def toString: String = s"ServerSettings($url,$app,$operator)"
}
