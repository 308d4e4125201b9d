package io.tailrace.watermark

import java.net.{URI, URISyntaxException}

import io.tailrace.common.Arguments

/** A watermark server as the options of a call name it. */
private[tailrace] final case class ServerOptions(
    arguments: Arguments,
    server: Option[String],
    app: Option[String],
    operator: String,
    token: Option[String]
) {

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  def settings: Option[ServerSettings] = {
    // A user who gives one of these expects that the query reports.
    if (server.isEmpty)
      Seq("app" -> app, "token" -> token).foreach { case (argument, value) =>
        if (value.isDefined) throw arguments.needs(argument, "set", ServerOptions.Needed)
      }
    server.map(settingsAt)
  }

  private def settingsAt(url: String): ServerSettings = {
    checkAddress(url)
    val application = app.getOrElse(
      throw arguments.needs("server", url, "app, a name that all queries of the application give")
    )
    // It is a part of the URL path, in which servers take an encoded slash for a slash.
    if (!WireName.isName(application) || application.contains('/'))
      throw arguments.invalid("app", application, "1 to 200 characters, no / among them")
    ServerOptions.checkName(arguments, "operator", operator)
    // The error doesn't show it. The HTTP client that would refuse it does.
    if (token.exists(t => !t.matches("[!-~]([ -~]*[!-~])?")))
      throw arguments.invalid(
        "token",
        "not shown here",
        "printable ASCII without spaces around it"
      )
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

/** The address of a watermark server, and the name of the reporter.
  *
  * @param url      "http://host:port"
  * @param app      the application whose sources, operators and sinks share a global low watermark
  * @param operator this source's name in it
  * @param token    the server's bearer token, if it wants one
  */
final case class ServerSettings(url: String, app: String, operator: String, token: Option[String]) {

  /** Whether the other one reports to the same application. */
  def isBeside(other: ServerSettings): Boolean =
    url.stripSuffix("/") == other.url.stripSuffix("/") && app == other.app

  // Plans are shown, and tokens aren't.
  override def toString: String = s"ServerSettings($url,$app,$operator)"
}
