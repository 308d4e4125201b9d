package io.tailrace.common

import java.util.Locale

/** Names of columns that operators add for internal use, and remove again. No column of a user may have such a name:
  * it would be removed, too.
  */
private[tailrace] object OwnNames {
  private val Prefix = "__tailrace_"

  def of(name: String): String = Prefix + name

  /** True if a column has such a name, in any case. */
  def has(column: String): Boolean = column.toLowerCase(Locale.ROOT).startsWith(Prefix)

  /** Refuses columns that have such names.
    *
    * @param call    that is given them
    * @param columns of its DataFrames, and those that its arguments name
    */
  def check(call: String, columns: Iterable[String]): Unit =
    columns.find(has).foreach(column => throw Errors.columnReserved(call, column, Prefix))
}

/** Names made of several values, joined by `-`. Different values give different names: `-` and `%` are
  * escaped in all values but the first.
  */
object JoinedNames {
  val Separator = "-"

  /** The escapes, in the order in which they are applied. */
  val Escapes: Seq[(String, String)] = Seq("%" -> "%25", Separator -> "%2D")

  /** The text of a value that isn't the first. */
  def further(value: String): String = Escapes.foldLeft(value) { case (text, (from, to)) =>
    text.replace(from, to)
  }
}

/** The name of an operator's metrics in `observedMetrics` of a query's progress: `tailrace.<what>`, and
  * `tailrace.<what>.<name>` if the user has named the operator. So two operators of a query have two names.
  */
object ProgressName {

  /** @param default the name of an operator that the user has not named */
  def apply(what: String, name: String, default: String): String =
    if (name == default) s"tailrace.$what" else s"tailrace.$what.$name"

  /** `tailrace.<what>`, and the operator's own name or "". None: another name in `observedMetrics`. */
  def parts(text: String): Option[(String, String)] = text.split("\\.", 3) match {
    case Array("tailrace", what) => Some((s"tailrace.$what", ""))
    case Array("tailrace", what, name) => Some((s"tailrace.$what", name))
    case _ => None
  }
}

/** Names of users in a text that people read. */
object ShownNames {
  // Marks of direction, embeddings, overrides and isolates of Unicode's bidirectional algorithm.
  private val Directions = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]".r

  /** The text with marks of direction written out: U+202E, which would turn the rest of a line around, is shown as
    * `\u202e`.
    */
  def plain(text: String): String =
    Directions.replaceAllIn(text, found => f"\\\\u${found.matched.head.toInt}%04x")
}
