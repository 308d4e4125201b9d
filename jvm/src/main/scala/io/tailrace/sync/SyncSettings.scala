package io.tailrace.sync

/** What a synced join was asked for, columns apart.
  *
  * @param name         of its directory in the checkpoint, and of its numbers in the query's progress
  * @param syncDelay    how far the slowest right partition has to be past a left row before that is released, in microseconds
  * @param window       how long a right row may wait for its left one, by the slowest left partition, in microseconds
  * @param stallAfterMs a partition without a row for so long has stalled
  * @param maxPending   rows held of a side, above which the partitions that are ahead aren't read; none: any number
  */
final case class SyncSettings(
    name: String,
    syncDelay: Long,
    window: Long,
    onStall: OnStall,
    stallAfterMs: Long,
    duplicates: Duplicates,
    emitUnmatchedRight: Boolean,
    maxPending: Option[Long]
)

object SyncSettings {

  /** The column that marks duplicates. */
  val DuplicateColumn = "_duplicate"
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
