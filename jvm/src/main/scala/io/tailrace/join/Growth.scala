package io.tailrace.join

/** From a batch on, `after` is another one than it was. The batch is the first one that no sink can have rows of: one
  * that was cut off may have given its rows to a sink, so it runs again with the window that it had.
  *
  * {{{
  *   after = 1 day, and from batch 7 on 10 minutes        the watermark is noon
  *
  *   batch 7    rows up to 11:50 come out. For what follows the watermark is still noon less a day: those from
  *              yesterday's noon on aren't late there
  *   batch 8    for what follows it is noon less 10 minutes
  * }}}
  *
  * @param after until then, in microseconds
  */
final case class Growth(batch: Long, after: Long)

object Growth {

  /** The window's `after` in a batch, and in those before it; none: it is that of the settings, or as it was. */
  def of(batch: Long, grown: Seq[Growth]): (Option[Long], Option[Long]) =
    (grown.find(_.batch > batch).map(_.after), grown.find(_.batch == batch).map(_.after))

  /** The longest `after` that rows may have waited for which this batch and those before it give; 0 if it is that of
    * the settings.
    */
  def longestUntil(batch: Long, grown: Seq[Growth]): Long =
    grown.filter(_.batch >= batch).map(_.after).maxOption.getOrElse(0L)

  /** What a start with another window means for a checkpoint.
    *
    * @param grown    the checkpoint's, with that of this start
    * @param settings those that may differ
    */
  final case class Change(grown: Seq[Growth], settings: Set[String])

  /** @param first the first batch with the query's window
    * @param was   the settings of the checkpoint; `now`, likewise of the query
    */
  private[join] def change(
      join: StoredJoin,
      grown: Seq[Growth],
      was: Map[String, String],
      now: Map[String, String],
      first: => Long
  ): Change = {
    import JoinCheckpoint.{After, Before, duration}
    def isLess(name: String, one: Map[String, String], other: Map[String, String]) = {
      val found = Seq(one, other).flatMap(duration(_, name))
      found.size == 2 && found.head < found.last
    }
    val isOther = join.mayGrow && isLess(After, was, now) || join.mayShrink && isLess(After, now, was)
    val settings =
      Option.when(isOther)(After).toSet ++ Option.when(join.mayShrink && isLess(Before, now, was))(Before)
    lazy val batch = first
    // That of an earlier start hasn't begun: the window changes once.
    if (!isOther || grown.exists(_.batch == batch)) Change(grown, settings)
    else Change(grown :+ Growth(batch, duration(was, After).get), settings)
  }
}
