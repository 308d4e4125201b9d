package io.tailrace.sync

import io.tailrace.common.Policy

/** What a synced join was asked for, columns apart.
  *
  * @param name         of its directory in the checkpoint, and of its numbers in the query's progress
  * @param syncDelay    how far the slowest right partition has to be past a left row before that is released, in microseconds
  * @param window       how long a right row may wait for its left one, by the slowest left partition, in microseconds
  * @param stallAfterMs a partition without a row for so long has stalled
  * @param maxPending   rows held of a side, above which the partitions that are ahead aren't read; none: any number
  * @param onLeftStall  for left partitions; none: as for right ones
  * @param futureLimitMicros how far ahead of the batch's clock an event time is believed; none: as far as it is
  * @param onFuture     what is done about rows further ahead
  * @param liftsFiltered whether nobody waits for a partition that has given nothing but filtered records for `stallAfterMs`
  * @param leftPartition columns whose values tell left partitions apart; `rightPartition` likewise
  */
final case class SyncSettings(
    name: String,
    syncDelay: Long,
    window: Long,
    onStall: Policy,
    stallAfterMs: Long,
    onDuplicate: Policy,
    emitsUnmatchedRight: Boolean,
    maxPending: Option[Long],
    onLeftStall: Option[Policy] = None,
    futureLimitMicros: Option[Long] = None,
    onFuture: Policy = Policy.Clamp,
    liftsFiltered: Boolean = true,
    leftPartition: Seq[String] = Nil,
    rightPartition: Seq[String] = Nil
) {
  def onStallOf(side: SyncSide): Policy = side match {
    case SyncSide.Left => onLeftStall.getOrElse(onStall)
    case SyncSide.Right => onStall
  }

  def marksDuplicates: Boolean = onDuplicate == Policy.Mark
  def marksFuture: Boolean = onFuture == Policy.Mark

  /** Whether the result has the column `_mark`. */
  def marks: Boolean = marksDuplicates || marksFuture

  /** Whether rows come out that are of the right side alone. */
  def rightComesOutAlone: Boolean =
    emitsUnmatchedRight || marks

  /** The last event time that is believed in a batch, in microseconds.
    *
    * @param clockMs the batch's
    */
  def believedThrough(clockMs: Long): Long =
    Policy.believedThrough(futureLimitMicros, clockMs)

  /** Up to there rows are joined; those beyond come out as they are read, marked. */
  def joinedThrough(clockMs: Long): Long =
    if (marksFuture) believedThrough(clockMs) else Long.MaxValue
}
