package io.tailrace.watermark

import java.nio.charset.StandardCharsets.UTF_8

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common._

/** The arguments of [[io.tailrace.api.Tailrace.accurateWatermark]] and `stampedWatermark`, without the
  * columns. Names and defaults are those of Python.
  *
  * @param completeness the share of hosts that must have passed a time: "99.9%" or "0.999"
  * @param hosts        the roster: the hosts that count, seen or not; none: the hosts that have been seen
  * @param idleAfter    a host that is idle for longer, while other hosts have rows and no row is unread, doesn't
  *                     count until it has rows again
  * @param futureLimit  the greatest lead of an event time over the batch's clock
  * @param onFuture     "clamp", "mark" or "fail": the treatment of rows further ahead
  * @param delay        the lag of the watermark behind the hosts
  * @param server       a watermark server, "http://host:port", which decides, or several of one store,
  *                     separated by commas; none: the query decides alone
  * @param app          the application at the server
  * @param operator     the source's name in it; none: "source"
  * @param token        the server's bearer token
  * @param logs         at the server, the name of the hosts' logs, if other queries read other parts of them
  * @param name         the name of the source in the checkpoint and in the query's progress
  */
final case class WatermarkOptions(
    completeness: String = "99.9%",
    hosts: Option[Seq[String]] = None,
    idleAfter: Option[TimeSpan] = None,
    futureLimit: Option[TimeSpan] = None,
    onFuture: String = "clamp",
    delay: TimeSpan = "0 seconds",
    server: Option[String] = None,
    app: Option[String] = None,
    operator: Option[String] = None,
    token: Option[String] = None,
    logs: Option[String] = None,
    name: String = WatermarkOptions.Name
) {
  import WatermarkOptions._

  /** @param arguments of the call whose options they are
    * @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed
    */
  private[tailrace] def settings(arguments: Arguments): ProgressSettings = {
    def badShare = arguments.invalid("completeness", completeness, shares)
    val share = Completeness.parse(completeness).getOrElse(throw badShare)
    val roster = rosterArgument(isStamped = arguments eq stamped)
    if (hosts.exists(_.isEmpty)) throw arguments.invalid(roster, "", "one name or more, or left out")
    if (server.isDefined) hosts.map(_.distinct).foreach(checkRoster(arguments, roster, _))
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
      ServerOptions(arguments, server, app, operator, Operator, token, logs).settings
    )
  }

  /** The allowed values, for the error. A number that only lacks its percent sign is the example. */
  private def shares: String = {
    val meant = s"${completeness.trim}%"
    val example = if (Completeness.parse(meant).isDefined) meant else "99.9%"
    val allowed = s"'$example', or a share such as 0.999: above 0% and at most 100%"
    if (completeness.count(_.isDigit) <= Completeness.MostDigits) allowed
    else s"$allowed, with at most ${Completeness.MostDigits} digits behind the point of the share"
  }

  /** A server would refuse each report with a longer roster. */
  private def checkRoster(arguments: Arguments, argument: String, names: Seq[String]): Unit = {
    val bytes = names.map(name => WireName.encode(name).getBytes(UTF_8).length + 3L).sum
    val allowed = s"at most $MostHostsAtServer names in $MostRosterBytes bytes with a server"
    if (names.size > MostHostsAtServer || bytes > MostRosterBytes)
      throw arguments.invalid(argument, s"${names.size} names in $bytes bytes", allowed)
  }
}

object WatermarkOptions {

  /** The argument that has the roster: hosts, or partitions of a topic. */
  private[watermark] def rosterArgument(isStamped: Boolean): String =
    if (isStamped) "partitions" else "hosts"

  private[tailrace] def of(document: CallDocument, isStamped: Boolean): WatermarkOptions = WatermarkOptions(
    completeness = document("completeness").text,
    hosts = document.get(rosterArgument(isStamped)).map(_.texts),
    idleAfter = document.get("idle_after").map(_.duration),
    futureLimit = document.get("future_limit").map(_.duration),
    onFuture = document("on_future").text,
    delay = document("delay").duration,
    server = document.get("server").map(_.text),
    app = document.get("app").map(_.text),
    operator = document.get("operator").map(_.text),
    token = document.get("token").map(_.text),
    logs = document.get("logs").map(_.text),
    name = document("name").text
  )

  private[tailrace] val accurate = new Arguments("tailrace.accurate_watermark")
  private[tailrace] val stamped = new Arguments("tailrace.stamped_watermark")
  private[tailrace] val stamp = new Arguments("tailrace.stamp_watermark")

  private[watermark] val Name = "watermark"
  private val Operator = "source"
  private val MostHostsAtServer = 100000
  private val MostRosterBytes = 8000000L
}

/** The settings of one source.
  *
  * @param name        of the source's directory in the checkpoint, and of its numbers in the query's progress
  * @param delayMs     the lag of Spark's watermark behind the low watermark
  * @param roster      the hosts that count; none: those that have been seen
  * @param idleAfterMs the idle time after which a host doesn't count; none: each host counts indefinitely
  * @param futureLimitMicros the greatest lead of an event time over the batch's clock; none: no limit
  * @param server      the watermark server that decides; none: the query decides alone
  * @param isStamped   true: the hosts are partitions of a topic, and their times stamps
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

/** The errors of watermarks that run, of what they keep, and of what a server says. */
object WatermarkErrors {

  /** @param directory the directory or file that is missing
    * @param batch     the batch that needs it
    */
  def progressMissing(directory: String, batch: Long): TailraceStateException =
    stateError("TAILRACE_WATERMARK_PROGRESS_MISSING", null, "directory" -> directory, "batch" -> batch)

  /** @param detail the text of the server: who the other reporter is, and what both read */
  def reporterConflict(server: String, app: String, detail: String): TailraceStateException =
    stateError(
      "TAILRACE_WATERMARK_REPORTER_CONFLICT",
      null,
      "server" -> server,
      "app" -> app,
      "detail" -> detail
    )

  def runReplaced(server: String, app: String, detail: String): TailraceStateException =
    stateError("TAILRACE_WATERMARK_RUN_REPLACED", null, "server" -> server, "app" -> app, "detail" -> detail)

  /** @param server    that has answered with the store, a random id of its database
    * @param another   that has answered with another one
    */
  def storesDiffer(
      server: String,
      store: String,
      another: String,
      otherStore: String
  ): TailraceStateException =
    stateError(
      "TAILRACE_WATERMARK_STORES_DIFFER",
      null,
      "server" -> server,
      "store" -> store,
      "another" -> another,
      "otherStore" -> otherStore
    )

  def operatorExists(operator: String, app: String): TailraceAnalysisException =
    refuse("TAILRACE_WATERMARK_OPERATOR_EXISTS", "operator" -> operator, "app" -> app)

  def stampSource(): TailraceAnalysisException = refuse("TAILRACE_WATERMARK_STAMP_SOURCE")

  /** @param time  the event time of the row, in microseconds
    * @param limit the furthest time that is believed, in microseconds
    */
  def future(host: String, time: Long, limit: Long): TailraceStateException =
    stateError(
      "TAILRACE_WATERMARK_FUTURE",
      null,
      "host" -> host,
      "time" -> Errors.instant(time),
      "limit" -> Errors.instant(limit)
    )

  /** The most hosts that a warning names. */
  private val MostNamed = 20

  /** Hosts in a warning: the first ones, and the number of the others. */
  def named(hosts: Seq[String]): String =
    hosts.take(MostNamed).mkString(", ") +
      (if (hosts.size > MostNamed) s" and ${hosts.size - MostNamed} more" else "")
}
