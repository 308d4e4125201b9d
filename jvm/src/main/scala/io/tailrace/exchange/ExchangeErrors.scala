package io.tailrace.exchange

import io.tailrace.common.Errors.refuse
import io.tailrace.common.TailraceAnalysisException

/** The errors of an export and of an import. */
object ExchangeErrors {

  def noExport(path: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_NO_EXPORT", "path" -> path)

  /** @param what can't be imported: "operator 1 (stateStoreSave)" */
  def unsupported(what: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_UNSUPPORTED", "what" -> what.mkString(", "))

  /** @param columns that the join has, and that the rows lack or have of another type */
  def columns(side: String, columns: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_COLUMNS", "side" -> side, "columns" -> columns.mkString(", "))

  /** @param columns of a join that Parquet has no type for */
  def types(operator: Long, columns: Seq[String]): TailraceAnalysisException = refuse(
    "TAILRACE_STATE_EXCHANGE_TYPES",
    "operator" -> operator,
    "columns" -> columns.mkString(", ")
  )

  /** @param what "3 left rows have no time" */
  def rows(what: String): TailraceAnalysisException = refuse("TAILRACE_STATE_EXCHANGE_ROWS", "what" -> what)
}
