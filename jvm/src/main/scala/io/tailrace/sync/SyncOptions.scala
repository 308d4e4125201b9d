package io.tailrace.sync

import io.tailrace.common.{Arguments, CallDocument, Policy, Side, TimeSpan}
import io.tailrace.join.{IdleTimeout, OnStall}

/** The arguments of [[io.tailrace.api.Tailrace.syncJoin]] besides the DataFrames and the keys. Names and
  * defaults are those of Python.
  *
  * @param leftTime       timestamp column of the left side: the time when the row was made
  * @param rightTime      timestamp column of the right side, of the same type
  * @param window         the greatest difference in event time of two rows that match: "10 minutes"
  * @param syncDelay      the progress of the slowest right partition past a left row that releases it
  * @param leftPartition  columns of a left row's source partition; empty: Kafka's `topic` and `partition`
  * @param rightPartition likewise
  * @param onStall        "pause", "exclude" or "fail": the treatment of an idle partition that holds the join back
  * @param stallAfter     the idle time; needed for "exclude" and "fail", and to continue without a partition
  *                       whose rows are all filtered. None: a warning after a minute
  * @param onDuplicate    "emit", "drop" or "mark": the treatment of further rows of a key
  * @param onUnmatchedRight "drop" or "emit": the treatment of right rows that no left row has joined
  * @param maxBuffered     the number of buffered rows of a side above which its partitions that are ahead aren't
  *                       read; none: no limit
  * @param suffix         appended to the name of a right column that the left side has, too
  * @param name           the name of the join in the checkpoint and in the query's progress
  * @param onLeftStall    `onStall` of left partitions; none: the same as of right ones
  * @param futureLimit    the greatest lead of an event time over the batch's clock that is believed
  * @param onFuture       "clamp", "mark" or "fail": the treatment of rows further ahead
  * @param oneToOne     true asserts at most one match per left row and per right row: a pair is emitted when
  *                       both are there
  * @param idleTimeout    the idle time of the query after which buffered rows are flushed
  */
final case class SyncOptions(
    leftTime: String,
    rightTime: String,
    window: TimeSpan,
    syncDelay: TimeSpan,
    leftPartition: Seq[String] = Nil,
    rightPartition: Seq[String] = Nil,
    onStall: String = "pause",
    stallAfter: Option[TimeSpan] = None,
    onDuplicate: String = "emit",
    onUnmatchedRight: String = "drop",
    maxBuffered: Option[Long] = Some(SyncOptions.MaxBuffered),
    suffix: String = "_right",
    name: String = SyncOptions.Name,
    onLeftStall: Option[String] = None,
    futureLimit: Option[TimeSpan] = None,
    onFuture: String = "clamp",
    oneToOne: Boolean = false,
    idleTimeout: Option[TimeSpan] = None
) {

  import SyncOptions._

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: SyncSettings = {
    def stallPolicy(argument: String, value: String) = OnStall.policy(arguments, argument, value, stallAfter)
    val leftStall = onLeftStall.map(stallPolicy("on_left_stall", _))
    val stall = stallPolicy("on_stall", onStall)
    val future = arguments.choice("on_future", onFuture, Policy.onFuture)
    if (futureLimit.isEmpty && future != Policy.Clamp)
      throw arguments.needs("on_future", onFuture, Policy.FutureLimit)
    maxBuffered.foreach(arguments.number("max_buffered", _, least = 1))
    if (suffix.isEmpty) throw arguments.invalid("suffix", "", "one character or more")
    SyncSettings(
      arguments.name(name),
      arguments.duration("sync_delay", syncDelay),
      arguments.duration("window", window),
      stall,
      OnStall.afterMs(arguments, stallAfter),
      arguments.choice("on_duplicate", onDuplicate, Policy.onDuplicate),
      arguments.choice("on_unmatched_right", onUnmatchedRight, Policy.onUnmatchedRight) == Policy.Emit,
      maxBuffered,
      leftStall,
      futureLimit.map(arguments.duration("future_limit", _)),
      future,
      liftsFiltered = stallAfter.isDefined,
      oneToOne = oneToOne,
      idleTimeoutMs = idleTimeout.map(arguments.millis(IdleTimeout.Argument, _))
    )
  }

}

object SyncOptions {

  private[tailrace] def of(document: CallDocument): SyncOptions = SyncOptions(
    leftTime = document("left_time").text,
    rightTime = document("right_time").text,
    window = document("window").duration,
    syncDelay = document("sync_delay").duration,
    leftPartition = document.get("left_partition").toSeq.flatMap(_.texts),
    rightPartition = document.get("right_partition").toSeq.flatMap(_.texts),
    onStall = document("on_stall").text,
    stallAfter = document.get("stall_after").map(_.duration),
    onDuplicate = document("on_duplicate").text,
    onUnmatchedRight = document("on_unmatched_right").text,
    maxBuffered = document.get("max_buffered").map(_.long),
    suffix = document("suffix").text,
    name = document("name").text,
    onLeftStall = document.get("on_left_stall").map(_.text),
    futureLimit = document.get("future_limit").map(_.duration),
    onFuture = document("on_future").text,
    oneToOne = document("one_to_one").flag,
    idleTimeout = document.get("idle_timeout").map(_.duration)
  )

  private[tailrace] val arguments = new Arguments("tailrace.sync_join")

  private[sync] val Name = "sync_join"

  /** Rows of a side that are held on disk by default: a gigabyte of rows of 100 bytes. The index of these right
    * rows takes about 300 MB of all executors together, and less if Spark has less for it.
    */
  private[tailrace] val MaxBuffered = 10L * 1000 * 1000
}

/** The checked arguments of a synced join, except its columns.
  *
  * @param name         names its directory in the checkpoint, and its numbers in the query's progress
  * @param syncDelay    in microseconds, like `window`
  * @param stallAfterMs the idle time after which a partition has stalled
  * @param futureLimitMicros none: any event time is believed
  * @param liftsFiltered true: the join continues without a partition that has given only filtered records for
  *                      `stallAfterMs`
  * @param leftPartition columns whose values tell left partitions apart; `rightPartition` likewise
  * @param oneToOne true: a pair is emitted in the batch that brings its second row: see [[EarlyLeft]]
  * @param unlimited sides whose sources can't be held back, with what they read from
  * @param idleTimeoutMs after how much idle time of the query buffered rows are flushed; none: never
  */
final case class SyncSettings(
    name: String,
    syncDelay: Long,
    window: Long,
    onStall: Policy,
    stallAfterMs: Long,
    onDuplicate: Policy,
    emitsUnmatchedRight: Boolean,
    maxBuffered: Option[Long],
    onLeftStall: Option[Policy] = None,
    futureLimitMicros: Option[Long] = None,
    onFuture: Policy = Policy.Clamp,
    liftsFiltered: Boolean = true,
    leftPartition: Seq[String] = Nil,
    rightPartition: Seq[String] = Nil,
    unlimited: Seq[(Side, String)] = Nil,
    oneToOne: Boolean = false,
    idleTimeoutMs: Option[Long] = None
) {

  /** True if the user has said how many rows may be held, and a source that can't be held back is an error. */
  def asksForMaxBuffered: Boolean = maxBuffered.exists(_ != SyncOptions.MaxBuffered)

  def onStallOf(side: Side): Policy = side.of(onLeftStall.getOrElse(onStall), onStall)

  def marksDuplicates: Boolean = onDuplicate == Policy.Mark
  def marksFuture: Boolean = onFuture == Policy.Mark

  /** True if the result has the column `_mark`. */
  def marks: Boolean = marksDuplicates || marksFuture

  /** True if right rows may be emitted without a left row. */
  def rightComesOutAlone: Boolean = emitsUnmatchedRight || marks

  /** The last event time in a batch that isn't too far ahead of the clock, in microseconds.
    *
    * @param clockMs the batch's clock
    */
  def believedThrough(clockMs: Long): Long = Policy.believedThrough(futureLimitMicros, clockMs)

  /** Rows up to this time are joined; later ones are emitted as they are read, marked. */
  def joinedThrough(clockMs: Long): Long =
    if (marksFuture) believedThrough(clockMs) else Long.MaxValue
}

/** The times that a micro-batch is judged by, in microseconds, in the checkpoint when the batch before ends.
  *
  * @param release left rows before this time are released
  * @param leftLow right rows expire by it: how far the slowest left partition is, but at most `release`
  */
final case class SyncTimes(release: Long, leftLow: Long) {

  /** Neither of the times goes back. */
  private[sync] def max(other: SyncTimes): SyncTimes =
    SyncTimes(Math.max(release, other.release), Math.max(leftLow, other.leftLow))
}

object SyncTimes {

  /** There is no such time yet. */
  val Unknown: Long = Long.MinValue

  /** The time that is `micros` earlier; unknown if the time is. */
  private[sync] def before(time: Long, micros: Long): Long =
    if (time < Unknown + micros) Unknown else time - micros
}

/** The rows that a state partition holds after a batch.
  *
  * @param left       left rows that wait
  * @param right      right rows that nobody has joined
  * @param oldestLeft event time of the oldest left row that waits, in microseconds
  * @param oldestRight event time of the oldest right row
  * @param newestLeft no left row that waits is after this time
  * @param newestRight no right row is
  */
final case class SyncHeld(
    partition: Int,
    left: Long,
    right: Long,
    oldestLeft: Option[Long],
    oldestRight: Option[Long],
    newestLeft: Option[Long] = None,
    newestRight: Option[Long] = None
)

/** The rules for a row, given the times of a batch. All in microseconds. */
object SyncRules {

  /** The times by which left rows up to `through` are released, as if both sides had been read past them. */
  def flushedThrough(through: Long, settings: SyncSettings): SyncTimes = {
    val release = if (through == Long.MaxValue) through else through + 1
    SyncTimes(release, SyncTimes.before(release, slack(settings)))
  }

  /** The `through` by which a right row leaves as well. */
  def flushesRight(time: Long, settings: SyncSettings): Long = {
    val through = time + settings.window + settings.syncDelay
    if (through < time) Long.MaxValue else through
  }

  /** Left rows may jump back by the sync delay, even if the window is shorter. */
  def slack(settings: SyncSettings): Long = Math.max(0L, settings.syncDelay - settings.window)

  /** Left rows up to this time (included) are released; those at the earliest possible time always are. */
  def releasedThrough(times: SyncTimes): Long =
    if (times.release == SyncTimes.Unknown) Long.MinValue else times.release - 1

  /** The time of the oldest right row that a left row at `time` joins. */
  def joinsFrom(time: Long, settings: SyncSettings): Long = SyncTimes.before(time, settings.window)

  /** The time of the youngest right row that it joins. When the left row is released, all right partitions
    * have been read up to this time. Whether a younger right row is there already depends on how fast each
    * partition is read, and where batches are cut.
    */
  def joinsThrough(time: Long, settings: SyncSettings): Long = {
    val through = time + reach(settings)
    if (through < time) Long.MaxValue else through
  }

  /** Right rows from this time on are out of reach of left rows before `release`. */
  def joinedThrough(release: Long, settings: SyncSettings): Long =
    if (release == SyncTimes.Unknown) release else joinsThrough(release, settings)

  /** The time of the oldest left row that a right row at `time` may be joined with. */
  def reachesFrom(time: Long, settings: SyncSettings): Long = SyncTimes.before(time, reach(settings))

  /** The time of the youngest one. */
  def reachesThrough(time: Long, settings: SyncSettings): Long = {
    val through = time + settings.window
    if (through < time) Long.MaxValue else through
  }

  private def reach(settings: SyncSettings): Long = Math.min(settings.window, settings.syncDelay)

  /** Right rows up to this time (included) leave the state when the released left rows have been joined. No
    * left row that waits can still join them, nor one to come that jumps back by the sync delay at most: all
    * are more than `window` later. Left rows wait from the release time on, so it bounds the expiry too:
    * while a right partition has stalled, the left side may be hours ahead. `leftLow` already lags by the
    * part of the sync delay beyond the window; the rest is subtracted here.
    */
  def rightExpiry(times: SyncTimes, settings: SyncSettings): Long = {
    val low = SyncTimes.before(Math.min(times.release, times.leftLow), reach(settings))
    val window = settings.window
    // A right row at R goes when R + window < low.
    if (low == SyncTimes.Unknown || low < Long.MinValue + window + 2) Long.MinValue else low - window - 1
  }
}

/** The right rows that a left row joins: those in a range of time around it.
  *
  * {{{
  *   left row 12:00:00, window 10 minutes, sync_delay 5 seconds   ->   right rows from 11:50:00 to 12:00:05
  * }}}
  */
private[sync] class JoinRange(settings: SyncSettings) {
  private var from = 0L
  private var through = 0L

  def around(time: Long): Unit = {
    from = SyncRules.joinsFrom(time, settings)
    through = SyncRules.joinsThrough(time, settings)
  }

  def earliest: Long = from
  def latest: Long = through

  def has(time: Long): Boolean = time >= from && time <= through

  def isBeyond(time: Long): Boolean = time > through
}
