package io.tailrace.exchange

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}

/** The errors of an export and of an import. */
object ExchangeErrors {

  def destinationExists(path: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_EXISTS", "path" -> path)

  def noExport(path: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_NO_EXPORT", "path" -> path)

  /** @param what can't be imported: "operator 1 (stateStoreSave)" */
  def unsupported(what: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_UNSUPPORTED", "what" -> what.mkString(", "))

  /** @param columns that the join has, and that the rows lack or have of another type */
  def columns(side: String, columns: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_COLUMNS", "side" -> side, "columns" -> columns.mkString(", "))

  /** @param what "3 left rows have no time" */
  def rows(what: String): TailraceAnalysisException = refuse("TAILRACE_STATE_EXCHANGE_ROWS", "what" -> what)

  /** @param path of the new checkpoint, or of the export */
  def failed(path: String, cause: Throwable): TailraceStateException = {
    // Of the file system; what is around it is Spark's.
    val reason = Iterator.iterate(cause)(_.getCause).takeWhile(_ != null).toSeq.last
    stateError("TAILRACE_STATE_EXCHANGE_FAILED", cause, "path" -> path, "reason" -> reason)
  }
}
