package io.tailrace.watermark

import io.tailrace.common.Errors.{refuse, stateError}

/** The errors of watermarks that run, of what they keep, and of what a server says, as [[Errors]] has the others'. */
object WatermarkErrors {

  /** @param directory or the file of it that is missing
    * @param batch     that needs it
    */
  def progressMissing(directory: String, batch: Long): Throwable =
    stateError(
      "TAILRACE_WATERMARK_PROGRESS_MISSING",
      null,
      "directory" -> directory,
      "batch" -> batch.toString
    )

  /** @param detail the server's words: who the other reporter is, and what both read */
  def reporterConflict(server: String, app: String, detail: String): Throwable =
    stateError(
      "TAILRACE_WATERMARK_REPORTER_CONFLICT",
      null,
      "server" -> server,
      "app" -> app,
      "detail" -> detail
    )

  def runReplaced(server: String, app: String, detail: String): Throwable =
    stateError("TAILRACE_WATERMARK_RUN_REPLACED", null, "server" -> server, "app" -> app, "detail" -> detail)

  def operatorExists(operator: String, app: String): Throwable =
    refuse("TAILRACE_WATERMARK_OPERATOR_EXISTS", "operator" -> operator, "app" -> app)

  def appMissing(): Throwable = refuse("TAILRACE_WATERMARK_APP_MISSING")

  /** @param argument that is of a server alone */
  def serverMissing(argument: String): Throwable =
    refuse("TAILRACE_WATERMARK_SERVER_MISSING", "argument" -> argument)

  def futureLimitMissing(onFuture: String): Throwable =
    refuse("TAILRACE_WATERMARK_FUTURE_LIMIT_MISSING", "onFuture" -> onFuture)

  /** @param names of the accurate watermarks that don't report there */
  def windowsServer(server: String, app: String, names: Seq[String]): Throwable =
    refuse(
      "TAILRACE_WATERMARK_WINDOWS_SERVER",
      "server" -> server,
      "app" -> app,
      "names" -> names.mkString(", ")
    )

  /** @param other the column that does have a watermark, if one has */
  def windowsWatermarkMissing(column: String, other: Option[String]): Throwable =
    refuse(
      "TAILRACE_WATERMARK_WINDOWS_WATERMARK_MISSING",
      "column" -> column,
      "other" -> other.fold("")(c => s" (its watermark is on `$c`)")
    )

  /** @param newest batch that has landed there */
  def windowsLeft(path: String, batch: Long, newest: Long): Throwable =
    stateError(
      "TAILRACE_WATERMARK_WINDOWS_LEFT",
      null,
      "path" -> path,
      "batch" -> batch.toString,
      "newest" -> newest.toString
    )

  def nameExists(name: String): Throwable = refuse("TAILRACE_WATERMARK_NAME_EXISTS", "name" -> name)

  /** @param sink that the query would write to */
  def windowsSink(folder: String, sink: String): Throwable =
    refuse("TAILRACE_WATERMARK_WINDOWS_SINK", "folder" -> folder, "sink" -> sink)
}
