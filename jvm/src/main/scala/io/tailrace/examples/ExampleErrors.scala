package io.tailrace.examples

import org.apache.spark.sql.AnalysisException

import io.tailrace.common.Errors.refuse
import io.tailrace.common.TailraceAnalysisException

/** The errors of `tailrace.examples`. */
private[tailrace] object ExampleErrors {

  def noLabel(): TailraceAnalysisException = refuse("TAILRACE_EXAMPLES_NO_LABEL")

  /** @param argument of `call`, which has the condition
    * @param columns  that it may name
    */
  def condition(
      call: String,
      argument: String,
      condition: String,
      columns: Seq[String],
      cause: AnalysisException
  ): TailraceAnalysisException = refuse(
    "TAILRACE_EXAMPLES_CONDITION",
    "call" -> call,
    "argument" -> argument,
    "condition" -> condition,
    "columns" -> columns.mkString(", "),
    "reason" -> cause.getMessage.linesIterator.find(_.nonEmpty).getOrElse("")
  )

  def excludesLabel(label: String): TailraceAnalysisException =
    refuse("TAILRACE_EXAMPLES_EXCLUDES_LABEL", "label" -> label)

  /** @param label with an attribution */
  def impressionsChange(label: String): TailraceAnalysisException =
    refuse("TAILRACE_EXAMPLES_IMPRESSIONS_CHANGE", "label" -> label)

  def nameExists(name: String): TailraceAnalysisException =
    refuse("TAILRACE_EXAMPLES_NAME_EXISTS", "name" -> name)

  /** @param labels each with the columns of the impressions that are its keys */
  def noCommonKey(labels: Seq[(String, Seq[String])]): TailraceAnalysisException =
    refuse(
      "TAILRACE_EXAMPLES_NO_COMMON_KEY",
      "labels" -> labels.map { case (name, keys) => s"'$name' by ${keys.mkString(", ")}" }.mkString("; ")
    )
}
