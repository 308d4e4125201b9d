package io.tailrace.watermark

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{Errors, TailraceAnalysisException, TailraceStateException}

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
