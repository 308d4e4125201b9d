package io.tailrace.ops.rewrite

import io.tailrace.state.{LiveSection, LoadedState, MergedSections, RunCursor, StoreKind}

/** The matches that eager matching has found for left rows that wait, each with its left row. Both are in the order of
  * the left row's time and sequence number:
  *
  * {{{
  *   left-time-sorted   12:00 #1   12:01 #4   12:02 #2
  *   joined-indicator   12:00 #1   12:00 #1   12:02 #2      two matches of the first, one of the third
  * }}}
  */
private[tailrace] final class MatchesOfLefts(state: LoadedState) extends AutoCloseable {
  import StoreKind.{JoinedIndicator, LeftTimeSorted}

  /** The sections with matches. */
  val sections: Seq[LiveSection] = sectionsOf(JoinedIndicator)

  private val lefts = merged(LeftTimeSorted)
  private val joins =
    try merged(JoinedIndicator)
    catch {
      case e: Throwable =>
        lefts.close()
        throw e
    }

  private def sectionsOf(kind: StoreKind): Seq[LiveSection] = state.sections.filter(_.section.kind == kind)

  private def merged(kind: StoreKind): MergedSections =
    new MergedSections(sectionsOf(kind), RunCursor.inOrder(kind.order), state.manifest.expiry.through(kind))

  def isEmpty: Boolean = joins.isEmpty

  /** The match, until [[drop]]. Not if there is none. */
  def joined: RunCursor = joins.head

  /** Its left row. */
  def left: RunCursor = {
    while (!lefts.isEmpty && order < 0) lefts.drop()
    if (lefts.isEmpty || order > 0)
      throw sections.head.local.corrupt("it has a match without its left row")
    lefts.head
  }

  private def order: Int = lefts.head.compareTimeAndSeq(joined.time, joined.seq)

  /** Goes on to the next match. */
  def drop(): Unit = joins.drop()

  override def close(): Unit =
    try joins.close()
    finally lefts.close()
}
