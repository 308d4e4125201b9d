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

/** Conditions that users write in SQL. */
private[examples] object Conditions {

  /** Returns the result of `body` for a condition. Spark's error names neither the call nor the condition.
    *
    * @param argument of `call`
    * @param columns  that the condition may name
    * @throws io.tailrace.common.TailraceAnalysisException if it can't be read
    */
  def read[T](call: String, argument: String, condition: String, columns: Seq[String])(body: => T): T =
    try body
    catch {
      case ours: TailraceAnalysisException => throw ours
      case e: AnalysisException =>
        throw ExampleErrors.condition(call, argument, condition, columns, e)
    }
}
