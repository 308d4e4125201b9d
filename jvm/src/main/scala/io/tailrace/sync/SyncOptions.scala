package io.tailrace.sync

import io.tailrace.common.{Durations, Errors, OnFuture}

/** The arguments of [[Tailrace.syncJoin]] besides the frames and the keys; the names and defaults are those of Python.
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
  * @param duplicates     "emit", "drop" or "divert": what becomes of further rows of a key
  * @param unmatchedRight "drop" or "emit": what becomes of right rows that nobody has joined
  * @param maxPending     rows held of a side, above which partitions that are ahead aren't read
  * @param suffix         put behind names of right columns that the left side has too
  * @param name           of its directory in the checkpoint, and of its numbers in the query's progress
  * @param leftOnStall    `onStall` of left partitions; none: the same as of right ones
  * @param futureLimit    how far ahead of the batch's clock an event time is believed; a duration
  * @param onFuture       "clamp", "divert" or "fail": what is done about rows further ahead than that
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
    duplicates: String = "emit",
    unmatchedRight: String = "drop",
    maxPending: Option[Long] = None,
    suffix: String = "_right",
    name: String = "sync_join",
    leftOnStall: Option[String] = None,
    futureLimit: Option[String] = None,
    onFuture: String = "clamp"
) {

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: SyncSettings = {
    val stall = one("on_stall", onStall, OnStall.values)(_.name)
    val leftStall = leftOnStall.map(one("left_on_stall", _, OnStall.values)(_.name))
    (leftStall.map("left_on_stall" -> _).toSeq :+ ("on_stall" -> stall)).foreach { case (argument, action) =>
      if (stallAfter.isEmpty && action != OnStall.Pause)
        throw SyncErrors.stallAfterMissing(argument, action.name)
    }
    val future = one("on_future", onFuture, OnFuture.values)(_.name)
    if (futureLimit.isEmpty && future != OnFuture.Clamp) throw SyncErrors.futureLimitMissing(onFuture)
    if (!Seq("drop", "emit").contains(unmatchedRight))
      throw Errors.optionInvalid("unmatched_right", unmatchedRight, quoted(Seq("drop", "emit")))
    maxPending
      .filter(_ < 1)
      .foreach(n => throw Errors.optionInvalid("max_pending", n.toString, "one or more"))
    if (suffix.isEmpty) throw Errors.optionInvalid("suffix", suffix, "one or more characters")
    // It is a directory's name.
    if (!name.matches("[A-Za-z0-9_-]+"))
      throw Errors.optionInvalid("name", name, "letters, digits, `_` and `-`")
    val after = stallAfter.fold(SyncOptions.StallAfter)(Durations.length("stall_after", _))
    if (after < 1000) throw Errors.optionInvalid("stall_after", stallAfter.get, "a millisecond or more")
    SyncSettings(
      name,
      Durations.length("sync_delay", syncDelay),
      Durations.length("window", window),
      stall,
      after / 1000,
      one("duplicates", duplicates, Duplicates.values)(_.name),
      unmatchedRight == "emit",
      maxPending,
      leftStall,
      futureLimit.map(Durations.length("future_limit", _)),
      future,
      liftsFiltered = stallAfter.isDefined
    )
  }

  private def one[T](argument: String, value: String, all: Seq[T])(name: T => String): T =
    all
      .find(name(_) == value)
      .getOrElse(throw Errors.optionInvalid(argument, value, quoted(all.map(name))))

  private def quoted(values: Seq[String]): String = values.map(v => s"\"$v\"").mkString(" or ")
}

object SyncOptions {

  /** A minute, in microseconds. */
  private val StallAfter = 60L * 1000 * 1000
}
