package io.tailrace.ops.exchange

import io.tailrace.common.Errors.refuse
import io.tailrace.common.TailraceAnalysisException

/** The errors of an export and of an import. */
object ExchangeErrors {

  def noExport(path: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_NO_EXPORT", "path" -> path)

  /** @param what the part that can't be imported: "operator 1 (stateStoreSave)" */
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

  /** @param missing paths of files, below the export's */
  def incomplete(path: String, missing: Seq[String]): TailraceAnalysisException = {
    val (named, more) = missing.splitAt(MostFiles)
    val files = named.mkString(", ") + (if (more.isEmpty) "" else s" and ${more.size} more")
    refuse("TAILRACE_STATE_EXCHANGE_INCOMPLETE", "path" -> path, "files" -> files)
  }

  /** @param what "label 'click' with an attribution" */
  def queryNeeded(path: String, what: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_QUERY_NEEDED", "path" -> path, "what" -> what.mkString(", "))

  /** @param reason why an import would give other rows than the query that was exported */
  def unfit(path: String, reason: String): TailraceAnalysisException =
    refuse("TAILRACE_STATE_EXCHANGE_UNFIT", "path" -> path, "reason" -> reason)

  private val MostFiles = 5

  /** @param what "3 left rows have no time" */
  def rows(what: String): TailraceAnalysisException = refuse("TAILRACE_STATE_EXCHANGE_ROWS", "what" -> what)
}
