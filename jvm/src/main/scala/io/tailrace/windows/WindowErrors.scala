package io.tailrace.windows

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}

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
