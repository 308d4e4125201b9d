package io.tailrace.watermark

import io.tailrace.common.Policy

/** How one source's low watermark is made.
  *
  * @param name        of the source's directory in the checkpoint, and of its numbers in the query's progress
  * @param delayMs     by which Spark's watermark stays behind the low watermark
  * @param roster      the hosts that count; none: those that have been seen
  * @param idleAfterMs a host that is silent for so long doesn't count; none: it does for ever
  * @param futureLimitMicros how far ahead of the batch's clock an event time may be; none: as far as it is
  * @param server      the watermark server that is told, and whose word counts; none: the query alone
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

  /** Of the roster, by its content: the same hosts in another order are the same roster. */
  lazy val rosterVersion: String =
    WireName.digest(roster.getOrElse(Nil).map(WireName.encode).sorted.mkString("\n"))
}

/** Where a watermark server is, and who reports to it.
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
