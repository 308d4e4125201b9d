package io.tailrace.sync

/** What a micro-batch is judged by: known, and in the checkpoint, when the batch before it has ended. In microseconds.
  *
  * @param release left rows before it are released
  * @param leftLow how far the slowest left partition has been read, but not ahead of `release`: by it right rows expire
  */
final case class SyncTimes(release: Long, leftLow: Long)

object SyncTimes {

  /** No such time yet. */
  val Unknown: Long = Long.MinValue

  /** So much before a time; unknown if that is. */
  private[sync] def before(time: Long, micros: Long): Long =
    if (time < Unknown + micros) Unknown else time - micros
}

/** One of the two inputs. */
sealed abstract class SyncSide(val name: String)

object SyncSide {
  case object Left extends SyncSide("left")
  case object Right extends SyncSide("right")

  val values: Seq[SyncSide] = Seq(Left, Right)
}

/** What a state partition holds after a batch.
  *
  * @param left       left rows that wait
  * @param right      right rows that nobody has joined
  * @param oldestLeft the event time of the oldest left row that waits, in microseconds
  * @param oldestRight of the oldest right row
  */
final case class SyncHeld(
    partition: Int,
    left: Long,
    right: Long,
    oldestLeft: Option[Long],
    oldestRight: Option[Long]
)
