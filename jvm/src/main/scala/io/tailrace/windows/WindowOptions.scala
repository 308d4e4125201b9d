package io.tailrace.windows

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{
  Arguments,
  CallDocument,
  Choice,
  Durations,
  TailraceAnalysisException,
  TailraceStateException,
  TimeSpan
}
import io.tailrace.driver.IdleQuery
import io.tailrace.tables.TableFormat
import io.tailrace.watermark.{Completeness, ProgressSettings, ServerOptions, ServerSettings}

/** The arguments of [[io.tailrace.api.Tailrace.writeWindows]] besides the folder and the time. Names and
  * defaults are those of Python.
  *
  * @param window    the length of a window
  * @param offset    the start of a window after 1970-01-01 UTC; shorter than a window
  * @param into      the column that directories of windows are named after
  * @param missing   the most hosts that a report names
  * @param targetFileSize the size of files to gather rows for, such as 128 MB; none: each task writes its own
  * @param clusterBy the columns whose equal rows are adjacent in a file, in the order of time; none: rows stay in the
  *                  order in which they come
  * @param server    a watermark server, or several of one store with commas between them, whose global low
  *                  watermark closes windows; none: the query's own
  * @param app       the application at the server
  * @param operator  the sink's name in it; none: "sink"
  * @param token     the server's bearer token
  * @param upstreams the operators at the server whose rows are written; none: the query's sources
  * @param idleTimeout the idle time of the query after which open windows close as they are
  * @param format    parquet: windows stay in the folder; delta and iceberg: complete windows go to a table
  * @param table     the table's name or, of Delta, its path
  */
final case class WindowOptions(
    window: TimeSpan = "1 hour",
    offset: TimeSpan = "0 seconds",
    into: String = "window_start",
    missing: Int = 10,
    targetFileSize: Option[String] = None,
    clusterBy: Option[Seq[String]] = None,
    server: Option[String] = None,
    app: Option[String] = None,
    operator: Option[String] = None,
    token: Option[String] = None,
    upstreams: Option[Seq[String]] = None,
    idleTimeout: Option[TimeSpan] = None,
    format: String = "parquet",
    table: Option[String] = None
) {
  import WindowOptions._

  /** @param path    the qualified path of the folder
    * @param sources the accurate watermarks of the DataFrame
    * @param clusters the order of rows in files, if the user wants one
    * @param joins   calls upstream with their `idle_timeout`, in milliseconds
    * @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed
    */
  private[tailrace] def settings(
      path: String,
      sources: Seq[ProgressSettings],
      clusters: Option[Clusters],
      joins: Seq[(String, Long)]
  ): LandingSettings = {
    val width = arguments.duration("window", window, least = 1)
    val from = arguments.duration("offset", offset)
    if (from >= width) throw arguments.invalid("offset", offset, "a duration that is shorter than a window")
    val letters = "a letter, then up to 99 letters, digits and _"
    arguments.matching("into", into, "[A-Za-z][A-Za-z0-9_]{0,99}", letters)
    arguments.number("missing", missing.toLong, least = 0, MostMissing)
    val fileBytes = targetFileSize.map(arguments.bytes("target_file_size", _, LeastFile, MostFile))
    if (server.isEmpty && upstreams.isDefined) throw arguments.needs("upstreams", "set", ServerOptions.Needed)
    val sink =
      ServerOptions(arguments, server, app, operator, Operator, token).settings.map(sinkServer(_, sources))
    val windows = Windows(width, from)
    val size = fileBytes.orElse(clusters.map(_ => Clusters.FileBytes))
    LandingSettings(path, windows, into, missing, size, sources, sink, tableName, clusters, closesIdle(joins))
  }

  /** Windows must not close before the joins upstream have flushed the rows that belong into them. */
  private def closesIdle(joins: Seq[(String, Long)]): Option[Long] = idleTimeout.map { given =>
    server.foreach { _ =>
      val reason =
        "windows close by the progress of all queries of the application, and this one knows only its own"
      throw arguments.conflict(IdleQuery.Argument, given, "server", reason)
    }
    val ms = arguments.millis(IdleQuery.Argument, given)
    joins.find(_._2 > ms).foreach { case (call, longer) =>
      val least = s"at least the ${Durations.words(longer * 1000)} of $call, whose rows land in these windows"
      throw arguments.invalid(IdleQuery.Argument, given, least)
    }
    ms
  }

  private[tailrace] def tableName: Option[TableName] =
    (WindowFormat.tables(arguments, format), table) match {
      case (Some(of), Some(name)) =>
        of.checkName(arguments, name)
        Some(TableName(name, of))
      case (Some(of), None) => throw arguments.needs("format", of.name, "table='db.clicks'")
      case (None, Some(name)) => throw arguments.needs("table", name, "format='delta' or format='iceberg'")
      case (None, None) => None
    }

  private def sinkServer(settings: ServerSettings, sources: Seq[ProgressSettings]): SinkServer = {
    val own = sources.flatMap(_.server.filter(settings.isBeside)).map(_.operator).distinct
    val named = upstreams.getOrElse(own)
    named.foreach(ServerOptions.checkName(arguments, "upstreams", _))
    if (upstreams.exists(_.isEmpty))
      throw arguments.invalid("upstreams", "", "one operator at the server or more")
    val others = sources.filterNot(_.server.exists(settings.isBeside))
    if (upstreams.isEmpty && others.nonEmpty)
      throw WindowErrors.server(settings.named, settings.app, others.map(_.name))
    if (named.contains(settings.operator))
      throw arguments.invalid("operator", settings.operator, "a name that no operator upstream has")
    val ofSources = others.isEmpty && named.toSet == own.toSet
    SinkServer(settings, named, ofSources, isGiven = upstreams.isDefined)
  }
}

object WindowOptions {

  private[tailrace] def of(document: CallDocument): WindowOptions = WindowOptions(
    window = document("window").duration,
    offset = document("offset").duration,
    into = document("into").text,
    missing = document("missing").int,
    targetFileSize = document.get("target_file_size").map(_.size),
    clusterBy = document.get("cluster_by").map(_.texts),
    server = document.get("server").map(_.text),
    app = document.get("app").map(_.text),
    operator = document.get("operator").map(_.text),
    token = document.get("token").map(_.text),
    upstreams = document.get("upstreams").map(_.texts),
    idleTimeout = document.get("idle_timeout").map(_.duration),
    format = document("format").text,
    table = document.get("table").map(_.text)
  )

  private[tailrace] val arguments = new Arguments("tailrace.write_windows")

  private val Operator = "sink"
  private val MostMissing = 1000L
  private val LeastFile = 1L << 20
  private val MostFile = 1L << 34
}

/** The settings of a sink of windows. See [[WindowOptions]] for `into` and `missing`.
  *
  * @param fileBytes the size of files to gather rows for; none: each task writes its own
  * @param sources the accurate watermarks below
  * @param server  the server whose global low watermark closes windows; none: the query's own closes them
  * @param table   that complete windows go to; none: they stay in the folder
  * @param clusters the order of rows in files; none: as they come
  * @param idleTimeoutMs after how much idle time of the query open windows close; none: the watermark closes them
  */
final case class LandingSettings(
    path: String,
    windows: Windows,
    into: String,
    missing: Int,
    fileBytes: Option[Long],
    sources: Seq[ProgressSettings],
    server: Option[SinkServer],
    table: Option[TableName] = None,
    clusters: Option[Clusters] = None,
    idleTimeoutMs: Option[Long] = None
) {

  /** The share of hosts that all sources together wait for. */
  def completeness: Completeness = sources.map(_.completeness).foldLeft(Completeness.Whole)(_ andThen _)

  /** The greatest delay of a source, in microseconds. */
  def delay: Long = sources.map(_.delayMs).max * 1000
}

/** The order of rows in a file: rows with equal columns are adjacent, in the order of time.
  *
  * {{{
  *   as they come             by `user`                      a file whose columns repeat packs better, and a
  *   b 12:01, a 12:02,   ──>  a 12:02, a 12:04,              reader finds a user's rows in one place
  *   b 12:03, a 12:04         b 12:01, b 12:03
  * }}}
  *
  * @param columns names of the query's columns
  * @param time    the event time's
  */
final case class Clusters(columns: Seq[String], time: String) {

  /** The columns by which the rows of a file are sorted. */
  def order: Seq[String] = (columns :+ time).distinct
}

object Clusters {

  /** The size of files, if the user names none: rows come together only if they are gathered. */
  val FileBytes: Long = 128L << 20
}

/** A table as a user names it. */
final case class TableName(name: String, format: TableFormat)

/** The places of complete windows: the folder itself, or a table of a format. */
private[windows] object WindowFormat {
  private object Parquet extends Choice {
    override val name: String = "parquet"
  }

  /** None: windows stay in the folder. */
  def tables(arguments: Arguments, format: String): Option[TableFormat] =
    arguments.choice[Choice]("format", format, Parquet +: TableFormat.all) match {
      case table: TableFormat => Some(table)
      case _ => None
    }
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

/** The errors of windows that land. */
object WindowErrors {
  def source(): TailraceAnalysisException = refuse("TAILRACE_WINDOWS_SOURCE")

  def batch(): TailraceAnalysisException = refuse("TAILRACE_WINDOWS_BATCH")

  def folder(path: String, reason: String): TailraceAnalysisException =
    refuse("TAILRACE_WINDOWS_FOLDER", "path" -> path, "reason" -> reason)

  def notFound(path: String): TailraceAnalysisException =
    refuse("TAILRACE_WINDOWS_NOT_FOUND", "path" -> path)

  /** @param newest the newest batch that has landed */
  def rolledBack(path: String, batch: Long, newest: Long): TailraceStateException =
    stateError("TAILRACE_WINDOWS_ROLLED_BACK", null, "path" -> path, "batch" -> batch, "newest" -> newest)

  def fileMissing(from: String, to: String, batch: Long): TailraceStateException =
    stateError("TAILRACE_WINDOWS_FILE_MISSING", null, "from" -> from, "to" -> to, "batch" -> batch)

  /** @param rows that have landed in the window */
  def rowsMissing(directory: String, table: String, found: Long, rows: Long): TailraceStateException =
    stateError(
      "TAILRACE_WINDOWS_ROWS_MISSING",
      null,
      "directory" -> directory,
      "table" -> table,
      "found" -> found,
      "rows" -> rows
    )

  def twoWriters(path: String, cause: Throwable): TailraceStateException =
    stateError("TAILRACE_WINDOWS_TWO_WRITERS", cause, "path" -> path)

  /** @param names the accurate watermarks that don't report there */
  def server(server: String, app: String, names: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_WINDOWS_SERVER", "server" -> server, "app" -> app, "names" -> names.mkString(", "))

  /** @param other the column that does have a watermark, if one has */
  def watermarkMissing(column: String, other: Option[String]): TailraceAnalysisException =
    refuse(
      "TAILRACE_WINDOWS_WATERMARK_MISSING",
      "column" -> column,
      "other" -> other.fold("")(c => s" (its watermark is on `$c`)")
    )

  /** @param newest the newest batch that has landed there */
  def left(path: String, batch: Long, newest: Long): TailraceStateException =
    stateError("TAILRACE_WINDOWS_LEFT", null, "path" -> path, "batch" -> batch, "newest" -> newest)

  /** @param sink the sink that the query would write to */
  def sink(folder: String, sink: String): TailraceAnalysisException =
    refuse("TAILRACE_WINDOWS_SINK", "folder" -> folder, "sink" -> sink)
}
