package io.tailrace.windows

import io.tailrace.common.Arguments
import io.tailrace.watermark.{Completeness, ProgressSettings, ServerOptions, ServerSettings}

/** The arguments of [[io.tailrace.api.Tailrace.writeWindows]] besides the folder and the time. Names and
  * defaults are those of Python.
  *
  * @param window    how long a window is; a duration
  * @param offset    how far after 1970-01-01 UTC a window starts; a duration shorter than a window
  * @param into      the column that directories of windows are named after
  * @param missing   the most hosts that a report names
  * @param server    a watermark server, whose global low watermark closes windows; none: the query's own
  * @param app       the application at the server
  * @param operator  the sink's name in it
  * @param token     the server's bearer token
  * @param upstreams the operators at the server whose rows are written; none: the query's sources
  */
final case class WindowOptions(
    window: String = "1 hour",
    offset: String = "0 seconds",
    into: String = "window_start",
    missing: Int = 10,
    server: Option[String] = None,
    app: Option[String] = None,
    operator: String = "sink",
    token: Option[String] = None,
    upstreams: Option[Seq[String]] = None
) {
  import WindowOptions._

  /** @param path    the qualified path of the folder
    * @param sources the accurate watermarks of the DataFrame
    * @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed
    */
  private[tailrace] def settings(path: String, sources: Seq[ProgressSettings]): LandingSettings = {
    val width = arguments.duration("window", window, least = 1)
    val from = arguments.duration("offset", offset)
    if (from >= width) throw arguments.invalid("offset", offset, "a duration that is shorter than a window")
    arguments.matching(
      "into",
      into,
      "[A-Za-z][A-Za-z0-9_]{0,99}",
      "a letter, then up to 99 letters, digits and _"
    )
    arguments.number("missing", missing.toLong, least = 0, MostMissing)
    if (server.isEmpty && upstreams.isDefined) throw arguments.needs("upstreams", "set", ServerOptions.Needed)
    val sink = ServerOptions(arguments, server, app, operator, token).settings.map(sinkServer(_, sources))
    LandingSettings(path, Windows(width, from), into, missing, sources, sink)
  }

  private def sinkServer(settings: ServerSettings, sources: Seq[ProgressSettings]): SinkServer = {
    val own = sources.flatMap(_.server.filter(settings.isBeside)).map(_.operator).distinct
    val named = upstreams.getOrElse(own)
    named.foreach(ServerOptions.checkName(arguments, "upstreams", _))
    if (upstreams.exists(_.isEmpty))
      throw arguments.invalid("upstreams", "empty", "one operator at the server or more")
    val others = sources.filterNot(_.server.exists(settings.isBeside))
    if (upstreams.isEmpty && others.nonEmpty)
      throw WindowErrors.server(settings.url, settings.app, others.map(_.name))
    val all = others.isEmpty
    if (named.contains(operator))
      throw arguments.invalid("operator", operator, "a name that no operator upstream has")
    SinkServer(settings, named, ofSources = all && named.toSet == own.toSet, isGiven = upstreams.isDefined)
  }
}

object WindowOptions {
  private[windows] val arguments = new Arguments("tailrace.write_windows")

  private val MostMissing = 1000L
}

/** The settings of a sink of windows.
  *
  * @param into    the column that directories of windows are named after
  * @param missing the most hosts that a report names
  * @param sources the accurate watermarks below
  * @param server  the watermark server whose global low watermark closes windows; none: the query's own
  *                closes them
  */
final case class LandingSettings(
    path: String,
    windows: Windows,
    into: String,
    missing: Int,
    sources: Seq[ProgressSettings],
    server: Option[SinkServer]
) {

  /** The share of hosts that all sources together wait for. */
  def completeness: Completeness = sources.map(_.completeness).foldLeft(Completeness.Whole)(_ andThen _)

  /** The greatest delay of a source, in microseconds. */
  def delay: Long = sources.map(_.delayMs).max * 1000
}

/** The watermark server of a sink.
  *
  * @param settings  the operator is the sink's name
  * @param upstreams the operators whose rows the sink writes, until a batch shows them
  * @param ofSources whether these are exactly the query's sources
  * @param isGiven   whether the user has named them. Then they stay
  */
final case class SinkServer(
    settings: ServerSettings,
    upstreams: Seq[String],
    ofSources: Boolean,
    isGiven: Boolean
)
