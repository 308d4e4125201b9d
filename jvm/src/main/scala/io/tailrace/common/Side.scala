package io.tailrace.common

/** A side of a join. Its name is what users see: a value of columns, JSON and metrics, and a word of errors. */
sealed abstract class Side(val name: String) {
  final def of[T](left: => T, right: => T): T = if (this == Side.Left) left else right

  override def toString: String = name
}

object Side {
  case object Left extends Side("left")
  case object Right extends Side("right")

  val values: Seq[Side] = Seq(Left, Right)
}
