package io.tailrace.sync

import io.tailrace.common.{Arguments, Policy}

/** The arguments of [[io.tailrace.api.Tailrace.syncJoin]] besides the DataFrames and the keys. Names and
  * defaults are those of Python.
  *
  * @param leftTime       timestamp column of the left side: when the row was made
  * @param rightTime      timestamp column of the right side, of the same type
  * @param window         how long a right row may wait for its left one; a duration such as "10 minutes"
  * @param syncDelay      how far the slowest right partition has to be past a left row before that is released
  * @param leftPartition  the columns that say which source partition a left row was read from; empty: Kafka's
  * @param rightPartition likewise
  * @param onStall        "pause", "exclude" or "fail": what is done about a partition that holds the join and gives no rows
  * @param stallAfter     after how long; needed to exclude or fail, and to go on without a partition whose rows
  *                       are all filtered; by default a minute to warn
  * @param onDuplicate    "emit", "drop" or "mark": what becomes of further rows of a key
  * @param onUnmatchedRight "drop" or "emit": what becomes of right rows that nobody has joined
  * @param maxPending     rows held of a side, above which partitions that are ahead aren't read
  * @param suffix         put behind names of right columns that the left side has too
  * @param name           of its directory in the checkpoint, and of its numbers in the query's progress
  * @param onLeftStall    `onStall` of left partitions; none: the same as of right ones
  * @param futureLimit    how far ahead of the batch's clock an event time is believed; a duration
  * @param onFuture       "clamp", "mark" or "fail": what is done about rows further ahead than that
  */
final case class SyncOptions(
    leftTime: String,
    rightTime: String,
    window: String,
    syncDelay: String,
    leftPartition: Seq[String] = Nil,
    rightPartition: Seq[String] = Nil,
    onStall: String = "pause",
    stallAfter: Option[String] = None,
    onDuplicate: String = "emit",
    onUnmatchedRight: String = "drop",
    maxPending: Option[Long] = None,
    suffix: String = "_right",
    name: String = SyncOptions.Name,
    onLeftStall: Option[String] = None,
    futureLimit: Option[String] = None,
    onFuture: String = "clamp"
) {

  import SyncOptions._

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: SyncSettings = {
    val leftStall = onLeftStall.map(stallPolicy("on_left_stall", _))
    val stall = stallPolicy("on_stall", onStall)
    val future = arguments.choice("on_future", onFuture, Policy.onFuture)
    if (futureLimit.isEmpty && future != Policy.Clamp)
      throw arguments.needs("on_future", onFuture, Policy.FutureLimit)
    maxPending.foreach(arguments.number("max_pending", _, least = 1))
    if (suffix.isEmpty) throw arguments.invalid("suffix", "empty", "one character or more")
    SyncSettings(
      arguments.name(name),
      arguments.duration("sync_delay", syncDelay),
      arguments.duration("window", window),
      stall,
      stallAfter.fold(StallAfterMs)(arguments.millis("stall_after", _)),
      arguments.choice("on_duplicate", onDuplicate, Policy.onDuplicate),
      arguments.choice("on_unmatched_right", onUnmatchedRight, Policy.onUnmatchedRight) == Policy.Emit,
      maxPending,
      leftStall,
      futureLimit.map(arguments.duration("future_limit", _)),
      future,
      liftsFiltered = stallAfter.isDefined
    )
  }

  private def stallPolicy(argument: String, value: String): Policy = {
    val policy = arguments.choice(argument, value, Policy.onStall)
    if (stallAfter.isEmpty && policy != Policy.Pause)
      throw arguments.needs(argument, value, "stall_after, for instance stall_after='5 minutes'")
    policy
  }
}

object SyncOptions {
  private[tailrace] val arguments = new Arguments("tailrace.sync_join")

  private[sync] val Name = "sync_join"

  /** A minute. */
  private val StallAfterMs = 60L * 1000
}
