package io.tailrace.sync

import io.tailrace.common.OnFuture

/** What a synced join was asked for, columns apart.
  *
  * @param name         of its directory in the checkpoint, and of its numbers in the query's progress
  * @param syncDelay    how far the slowest right partition has to be past a left row before that is released, in microseconds
  * @param window       how long a right row may wait for its left one, by the slowest left partition, in microseconds
  * @param stallAfterMs a partition without a row for so long has stalled
  * @param maxPending   rows held of a side, above which the partitions that are ahead aren't read; none: any number
  * @param leftOnStall  for left partitions; none: as for right ones
  * @param futureLimitMicros how far ahead of the batch's clock an event time is believed; none: as far as it is
  * @param onFuture     what is done about rows further ahead
  * @param liftsFiltered whether nobody waits for a partition that has given nothing but filtered records for `stallAfterMs`
  * @param leftPartition columns whose values tell left partitions apart; `rightPartition` likewise
  */
final case class SyncSettings(
    name: String,
    syncDelay: Long,
    window: Long,
    onStall: OnStall,
    stallAfterMs: Long,
    duplicates: Duplicates,
    emitUnmatchedRight: Boolean,
    maxPending: Option[Long],
    leftOnStall: Option[OnStall] = None,
    futureLimitMicros: Option[Long] = None,
    onFuture: OnFuture = OnFuture.Clamp,
    liftsFiltered: Boolean = true,
    leftPartition: Seq[String] = Nil,
    rightPartition: Seq[String] = Nil
) {
  def onStallOf(side: SyncSide): OnStall = side match {
    case SyncSide.Left => leftOnStall.getOrElse(onStall)
    case SyncSide.Right => onStall
  }

  /** Whether rows come out that are of the right side alone. */
  def rightComesOutAlone: Boolean =
    emitUnmatchedRight || duplicates == Duplicates.Divert || onFuture == OnFuture.Divert

  /** The last event time that is believed in a batch, in microseconds.
    *
    * @param clockMs the batch's
    */
  def believedThrough(clockMs: Long): Long =
    OnFuture.believedThrough(futureLimitMicros, clockMs)

  /** Up to there rows are joined; those beyond come out as they are read, marked. */
  def joinedThrough(clockMs: Long): Long =
    if (onFuture == OnFuture.Divert) believedThrough(clockMs) else Long.MaxValue
}

object SyncSettings {

  /** The column that marks duplicates. */
  val DuplicateColumn = "_duplicate"

  /** The column that marks rows ahead of the clock. */
  val FutureColumn = "future"
}

/** What is done when the partition that holds the sync time has stalled. */
sealed abstract class OnStall(val name: String)

object OnStall {

  /** Left rows wait. */
  case object Pause extends OnStall("pause")

  /** The partition doesn't count until it is back. */
  case object Exclude extends OnStall("exclude")

  /** The query fails. */
  case object Fail extends OnStall("fail")

  val values: Seq[OnStall] = Seq(Pause, Exclude, Fail)
}

/** What is done about further rows of an id. */
sealed abstract class Duplicates(val name: String)

object Duplicates {

  /** Left ones come out without a match, right ones are counted. */
  case object Emit extends Duplicates("emit")

  /** They are counted. */
  case object Drop extends Duplicates("drop")

  /** They come out, marked. */
  case object Divert extends Duplicates("divert")

  val values: Seq[Duplicates] = Seq(Emit, Drop, Divert)
}
