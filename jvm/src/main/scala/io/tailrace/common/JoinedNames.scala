package io.tailrace.common

/** Names that are several values joined by `-`, and no two of them alike: what would be taken for a part of another value
  * is written in another way.
  */
object JoinedNames {
  val Separator = "-"

  /** In this order. */
  val Escapes: Seq[(String, String)] = Seq("%" -> "%25", Separator -> "%2D")

  /** A value that isn't the first. */
  def further(value: String): String = Escapes.foldLeft(value) { case (text, (from, to)) =>
    text.replace(from, to)
  }
}
