package io.tailrace.watermark

import java.net.{URI, URISyntaxException}
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.{HexFormat, Locale}

import io.tailrace.common.Arguments

/** The options of a call that name a watermark server.
  *
  * @param defaultOperator the name of the call's operator at the server if the user gives none
  */
private[tailrace] final case class ServerOptions(
    arguments: Arguments,
    server: Option[String],
    app: Option[String],
    operator: Option[String],
    defaultOperator: String,
    token: Option[String],
    logs: Option[String] = None
) {

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  def settings: Option[ServerSettings] = {
    // A user who sets one of these expects that the query reports.
    if (server.isEmpty)
      Seq("app" -> app, "operator" -> operator, "token" -> token, "logs" -> logs).foreach {
        case (argument, value) =>
          if (value.isDefined) throw arguments.needs(argument, "set", ServerOptions.Needed)
      }
    server.map(settingsAt)
  }

  private def settingsAt(named: String): ServerSettings = {
    val urls = addresses(named)
    def needed = "app, a name that all queries of the application give"
    val application = app.getOrElse(throw arguments.needs("server", named, needed))
    // It is a part of the URL path. Servers take an encoded slash there for a slash.
    if (!WireName.isName(application) || application.contains('/'))
      throw arguments.invalid("app", application, "1 to 200 characters, no / among them")
    val reporter = operator.getOrElse(defaultOperator)
    ServerOptions.checkName(arguments, "operator", reporter)
    logs.foreach(ServerOptions.checkName(arguments, "logs", _))
    // Checked here, because the HTTP client's error would show it.
    if (token.exists(t => !t.matches("[!-~]([ -~]*[!-~])?")))
      throw arguments.invalid("token", "not shown here", "printable ASCII without spaces around it")
    ServerSettings(urls, application, reporter, token, logs)
  }

  private def addresses(named: String): Seq[String] = {
    val urls = named.split(",", -1).map(_.trim).toSeq
    val shown = if (named.exists("@?#".contains(_))) "not shown here" else named
    if (!urls.forall(isAddress)) {
      val allowed =
        "http://host:port, with the path that a proxy shows it below if there is one, or several of " +
          "one store with commas between them, none of them empty"
      throw arguments.invalid("server", shown, allowed)
    }
    val repeated = urls.groupBy(ServerSettings.place).values.find(_.size > 1)
    repeated.foreach { same =>
      val allowed = s"each server once: ${same.mkString(" and ")} are one"
      throw arguments.invalid("server", shown, allowed)
    }
    urls
  }

  private def isAddress(url: String): Boolean = {
    val parsed =
      try new URI(url)
      catch { case _: URISyntaxException => new URI("") }
    Seq("http", "https").contains(parsed.getScheme) && parsed.getHost != null &&
    parsed.getUserInfo == null && parsed.getRawPath.matches(
      ServerOptions.Path
    ) && parsed.getRawQuery == null &&
    parsed.getRawFragment == null && (parsed.getPort == -1 || parsed.getPort > 0 && parsed.getPort < 65536)
  }
}

private[tailrace] object ServerOptions {

  /** The argument that `app`, `operator`, `token`, `logs` and `upstreams` need. */
  val Needed = "server, for instance server='http://host:port'"

  /** A proxy may show a server below a path. The server's option `--path-prefix` takes the same ones. */
  private val Path = "(?:/(?!\\.{1,2}(?:/|$))[A-Za-z0-9._~-]++)*+/?"

  /** A server would refuse each report with another name. */
  def checkName(arguments: Arguments, argument: String, name: String): Unit =
    if (!WireName.isName(name)) {
      val allowed = s"1 to ${WireName.Longest} characters without control characters"
      throw arguments.invalid(argument, name, allowed)
    }
}

/** The addresses of watermark servers of one store, and the reporter's name there.
  *
  * @param urls     "http://host:port" of each, with the path that a proxy shows it below if there is one, in the order in which they are asked
  * @param app      the application whose sources, operators and sinks share a global low watermark
  * @param operator this source's name in it
  * @param token    the servers' bearer token, if they want one
  * @param logs     the name of the logs of which other queries read other parts; none: no other does
  */
final case class ServerSettings(
    urls: Seq[String],
    app: String,
    operator: String,
    token: Option[String],
    logs: Option[String] = None
) {

  /** The servers as messages name them, and as the user has. */
  def named: String = urls.mkString(",")

  /** The servers, whatever their order and spelling. */
  def places: Set[String] = urls.map(ServerSettings.place).toSet

  /** True if the other reporter reports to the same application. Servers that one query names have one store,
    * so one address in common is enough.
    */
  def isBeside(other: ServerSettings): Boolean = places.exists(other.places) && app == other.app

  // Spark shows plans in its pages. The token must not be there.
  override def toString: String = s"ServerSettings($named,$app,$operator)"
}

private[tailrace] object ServerSettings {

  /** An address in one spelling: two that differ in the host's case, in a slash at the end or in a port that is
    * the default are one server.
    */
  def place(url: String): String = {
    val parsed = new URI(url)
    val port = if (parsed.getPort != -1) parsed.getPort else if (parsed.getScheme == "https") 443 else 80
    s"${parsed.getScheme}://${parsed.getHost.toLowerCase(Locale.ROOT)}:$port${parsed.getRawPath.stripSuffix("/")}"
  }
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

  /** True if the server accepts the text as it is. */
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

  /** A part of a path, or of a parameter. */
  def inUrl(text: String): String = java.net.URLEncoder.encode(text, UTF_8).replace("+", "%20")

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
