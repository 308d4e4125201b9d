package io.tailrace.watermark

import java.net.{URI, URISyntaxException}

import io.tailrace.common.Errors

/** A watermark server as options name it. */
private[tailrace] final case class ServerOptions(
    server: Option[String],
    app: Option[String],
    operator: String,
    token: Option[String]
) {

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  def settings: Option[ServerSettings] = {
    // Who gives one of these takes it that the query reports.
    if (server.isEmpty)
      Seq("app" -> app, "token" -> token).foreach { case (argument, value) =>
        if (value.isDefined) throw WatermarkErrors.serverMissing(argument)
      }
    server.map(settingsAt)
  }

  private def settingsAt(url: String): ServerSettings = {
    checkAddress(url)
    val application = app.getOrElse(throw WatermarkErrors.appMissing())
    // It is a part of the address, where servers take an encoded slash for a slash.
    if (!WireName.isName(application) || application.contains('/'))
      throw Errors.watermarkOptionInvalid("app", application, "1 to 200 characters, no / among them")
    ServerOptions.checkName("operator", operator)
    // It isn't shown, and would be by the HTTP client that refuses it.
    if (token.exists(t => !t.matches("[!-~]([ -~]*[!-~])?")))
      throw Errors.watermarkOptionInvalid(
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
    if (!isAddress) throw Errors.watermarkOptionInvalid("server", shown, "http://host:port")
  }
}

private[tailrace] object ServerOptions {

  /** A server refuses a report with another name as a whole, again and again. */
  def checkName(argument: String, name: String): Unit =
    if (!WireName.isName(name)) {
      val allowed = s"1 to ${WireName.Longest} characters without control characters"
      throw Errors.watermarkOptionInvalid(argument, name, allowed)
    }
}
