package io.tailrace.join

/** A change of `after`, from a batch on: the first one that no sink can have rows of. An interrupted batch may have
  * given its rows to a sink, so it runs again with its former window.
  *
  * {{{
  *   after = 1 day, and from batch 7 on 10 minutes        the watermark is noon
  *
  *   batch 7    rows up to 11:50 are emitted. Downstream the watermark is still noon less a day: rows from
  *              yesterday's noon on aren't late there
  *   batch 8    downstream it is noon less 10 minutes
  * }}}
  *
  * @param after until then, in microseconds
  */
final case class Growth(batch: Long, after: Long)

object Growth {

  /** The window's `after` in a batch, and in those before it; none: it is that of the settings, or as it was. */
  def of(batch: Long, grown: Seq[Growth]): (Option[Long], Option[Long]) =
    (grown.find(_.batch > batch).map(_.after), grown.find(_.batch == batch).map(_.after))

  /** The longest `after` of rows that this batch and earlier ones emit; 0 if it is that of the settings.
    */
  def longestUntil(batch: Long, grown: Seq[Growth]): Long =
    grown.filter(_.batch >= batch).map(_.after).maxOption.getOrElse(0L)

  /** The windows of a checkpoint whose query has another one from this start on.
    *
    * @param grown the checkpoint's
    * @param first the first batch with the query's window
    * @param after until then, in microseconds
    */
  private[join] def noted(grown: Seq[Growth], first: Long, after: Long): Seq[Growth] =
    // That of an earlier start hasn't begun: the window changes once.
    if (grown.exists(_.batch == first)) grown else grown :+ Growth(first, after)
}
