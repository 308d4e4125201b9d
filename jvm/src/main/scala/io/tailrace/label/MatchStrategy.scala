package io.tailrace.label

/** When the matches of a row are looked for. What comes out is the same; what is kept and written is not.
  *
  * {{{
  *             written                                  right rows are kept until
  *   lazy      each row once                            watermark - after - before
  *   eager     left rows, an index of their keys,       watermark - before
  *             right rows, and each match once
  * }}}
  *
  * @param name  what the configuration and the checkpoint call it
  * @param moment what `explain` calls it
  */
sealed abstract class MatchStrategy(val name: String, val moment: String)

object MatchStrategy {

  /** When the left row expires: one merge of what expires with what it may match. */
  case object Lazy extends MatchStrategy("lazy", "at expiry")

  /** When the later of the two rows arrives. */
  case object Eager extends MatchStrategy("eager", "on arrival")

  val values: Seq[MatchStrategy] = Seq(Lazy, Eager)
}
