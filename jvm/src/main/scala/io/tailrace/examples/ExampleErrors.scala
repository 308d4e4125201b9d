package io.tailrace.examples

import io.tailrace.common.Errors.refuse
import io.tailrace.common.TailraceAnalysisException

/** The errors of `tailrace.examples`. */
private[tailrace] object ExampleErrors {

  def noLabel(): TailraceAnalysisException = refuse("TAILRACE_EXAMPLES_NO_LABEL")

  /** @param labels each with the columns of the impressions that are its keys */
  def noCommonKey(labels: Seq[(String, Seq[String])]): TailraceAnalysisException =
    refuse(
      "TAILRACE_EXAMPLES_NO_COMMON_KEY",
      "labels" -> labels.map { case (name, keys) => s"'$name' by ${keys.mkString(", ")}" }.mkString("; ")
    )
}
