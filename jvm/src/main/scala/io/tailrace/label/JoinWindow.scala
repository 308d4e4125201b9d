package io.tailrace.label

import io.tailrace.common.{Choice, Durations, WatermarkRules}
import io.tailrace.join.Growth

/** The rule by which right rows belong to a left row, and by which that is decided. All times and distances are in
  * microseconds; a right row at R belongs to a left row at L when `L - before <= R <= L + after`.
  *
  * The rules follow from one promise of the watermark W: rows at or before W are late; none is expected.
  *
  * {{{
  *   after = 30 min, before = 0              12:00  left row arrives
  *   W = 12:29   a right row at 12:30 may still come: nothing is decided
  *   W = 12:30   none can arrive any longer: the left row expires, its group is emitted
  * }}}
  */
final case class JoinWindow(before: Long, after: Long) {
  import JoinWindow.{behind, saturatingAdd}

  def lowerBound(leftTime: Long): Long = saturatingAdd(leftTime, -before)
  def upperBound(leftTime: Long): Long = saturatingAdd(leftTime, after)

  /** The left rows whose windows a right row is in. */
  def earliestLeft(rightTime: Long): Long = saturatingAdd(rightTime, -after)
  def latestLeft(rightTime: Long): Long = saturatingAdd(rightTime, before)

  /** The window around a left row with all left rows that have a match in common with it. */
  def withRivals: JoinWindow = {
    val both = saturatingAdd(before, after)
    JoinWindow(both, both)
  }

  /** Left rows up to this time have seen all their matches. */
  def leftExpiry(watermark: Long): Long = behind(watermark, after)

  /** Right rows up to this time match no left row that is still to come (each is after the watermark). */
  def rightExpiryOnMatch(watermark: Long): Long = behind(watermark, before)

  /** Right rows up to this time match no left row that is waiting, nor one that is still to come.
    *
    * @param released left rows up to this time have been emitted
    */
  def rightExpiryAtWindowEnd(released: Long): Long = behind(released, before)

  /** The time that a section of a run spans. At least a second: narrower ones make more sections than they save. */
  def bucketWidth(buckets: Long): Long = Math.max(1000L * 1000, (before + after) / buckets)

  /** The longest time for which a left row is buffered, in a batch or in a step after the end of its window.
    *
    * @param longest previous `after`, which rows of this batch may have waited for; 0 if unchanged
    * @param every   step of release
    */
  def longestWaitOfGroups(longest: Long, every: Long): Long =
    JoinWindow.saturatingAdd(Math.max(after, longest), every)

  /** The most that the time of a pair's row can be behind the watermark. A late right row may be `before` its left row, which
    * may wait for `after`.
    */
  def longestWait(takesLate: Boolean): Long =
    if (takesLate) saturatingAdd(before, after) else Math.max(before, after)
}

object JoinWindow extends WatermarkRules {

  /** The watermark, in milliseconds, downstream of rows that have waited for `wait` microseconds, rounded up. */
  def passedOn(watermarkMs: Long, wait: Long): Long =
    Math.max(0L, watermarkMs - wait / 1000 - (if (wait % 1000 == 0) 0 else 1))
}

/** Left rows are emitted in steps of event time after they have expired. To find the matches of a few left
  * rows costs nearly as much as to find those of many, because their right rows are anywhere in the window.
  *
  * {{{
  *   every = 20 min, 2 partitions         0: 12:00      12:20      12:40        1: 12:10      12:30
  *
  *   left rows expire up to    12:05      12:15      12:25      12:35
  *   partition 0               12:05      -          12:25      -
  *   partition 1               12:05      12:15      -          12:35
  * }}}
  *
  * A step begins at another time in each partition, so that not all of them work in the same micro-batch. If
  * the watermark moves on by more than a step in each micro-batch, nothing is held back.
  *
  * @param every microseconds; 0: left rows are emitted as soon as they expire
  */
final case class ReleaseSteps(every: Long) {

  /** In a checkpoint. */
  def text: String = if (every == 0) ReleaseSteps.Batch else s"$every microseconds"

  /** @param released left rows up to this time have been emitted; [[JoinWindow.NoWatermark]] if none has
    * @param expiry   left rows up to this time have expired
    * @return left rows up to this time are emitted now
    */
  def through(released: Long, expiry: Long, partition: Int, partitions: Int): Long = {
    val phase = every / partitions * partition
    def step(time: Long): Long = Math.floorDiv(JoinWindow.saturatingAdd(time, -phase), every)
    val isDue = every == 0 || released == JoinWindow.NoWatermark || step(expiry) > step(released)
    if (isDue) Math.max(released, expiry) else released
  }

  /** The minimum expiry with which left rows are emitted next; [[JoinWindow.NoWatermark]] if any does. */
  def dueFrom(released: Long, partition: Int, partitions: Int): Long = {
    val phase = every / partitions * partition
    if (every == 0 || released == JoinWindow.NoWatermark) JoinWindow.NoWatermark
    else (Math.floorDiv(JoinWindow.saturatingAdd(released, -phase), every) + 1) * every + phase
  }
}

object ReleaseSteps {

  /** The name, for users and in checkpoints, of steps that hold no row back. */
  val Batch = "batch"

  /** @param text in a checkpoint */
  def of(text: String): ReleaseSteps =
    if (text == Batch) EachBatch else ReleaseSteps(Durations.read(text).get)

  /** Left rows are emitted with each micro-batch. */
  val EachBatch: ReleaseSteps = ReleaseSteps(0)

  private val InWindow = 64

  /** Steps that are short beside the window, and long enough that the work of a left row doesn't depend on how
    * many micro-batches a window has (`jvm/docs/adr/014-release-steps.md`).
    */
  def default(window: JoinWindow): ReleaseSteps =
    ReleaseSteps(JoinWindow.saturatingAdd(window.before, window.after) / InWindow)
}

/** The choice of the versions of a left row that are emitted. */
sealed abstract class Emit(val name: String) extends Choice {

  /** True if a version after the first one is emitted.
    *
    * @param changed whether its group differs from that of the previous version
    * @param gained  whether it has a match where the previous version had none
    */
  def includes(isFinal: Boolean, changed: Boolean, gained: Boolean): Boolean
}

object Emit {

  /** One version at each horizon. */
  case object All extends Emit("all") {
    override def includes(isFinal: Boolean, changed: Boolean, gained: Boolean): Boolean = true
  }

  /** The first one and the final one, and those between whose group has changed. */
  case object Changes extends Emit("changes") {
    override def includes(isFinal: Boolean, changed: Boolean, gained: Boolean): Boolean =
      isFinal || changed
  }

  /** The first one, and then the one that has a match when those before it had none. */
  case object LatePositives extends Emit("late_positives") {
    override def includes(isFinal: Boolean, changed: Boolean, gained: Boolean): Boolean =
      gained
  }

  /** The first one and the final one. */
  case object Defer extends Emit("defer") {
    override def includes(isFinal: Boolean, changed: Boolean, gained: Boolean): Boolean = true
  }

  val values: Seq[Emit] = Seq(All, Changes, LatePositives, Defer)
}

/** The times at which versions of a left row are emitted: its own time plus each of these. A version has the matches up to
  * there that have arrived.
  *
  * {{{
  *   horizons 10 min, 1 h     left row 12:00     labels 12:04, 12:30, and 12:06 that comes when the watermark is 12:40
  *
  *   watermark 12:10     [12:04]                   final = false
  *   watermark 13:00     [12:04, 12:06, 12:30]     final = true, changed = true
  * }}}
  *
  * @param ends     microseconds, ascending; the last one is the window's `after`
  * @param argument the one by which the user has given them, for errors
  */
final case class Horizons(ends: Seq[Long], emit: Emit, argument: String = "horizons") {

  /** In a checkpoint. */
  def text: String = ends.map(end => s"$end microseconds").mkString(", ")

  def words: Seq[String] = ends.map(end => Durations.words(end))

  /** The horizon of the previous version. */
  def earlier(horizon: Int): Option[Long] = Option.when(horizon > 0)(ends(horizon - 1))

  def isFinal(horizon: Int): Boolean = horizon == ends.size - 1

  /** Left rows up to this time have had their version of a horizon that isn't the final one. Such versions come in steps
    * that are as long as those of [[ReleaseSteps]] at the most, and short enough that a later horizon isn't before an
    * earlier one. They follow from the watermark alone: a number of partitions that changes between two micro-batches
    * must neither leave a version out nor repeat one.
    */
  def through(horizon: Int, watermark: Long, before: Long, release: ReleaseSteps): Long = {
    val window = JoinWindow(before, ends(horizon))
    val closed = window.leftExpiry(watermark)
    val every = Seq(release.every, ReleaseSteps.default(window).every, ends(horizon + 1) - ends(horizon)).min
    if (every == 0 || closed <= Long.MinValue + every) closed else Math.floorDiv(closed, every) * every
  }
}

object Horizons {

  /** The columns that a version has behind the group. */
  val Horizon = "horizon"
  val Final = "final"
  val Changed = "changed"
}

/** The times of a micro-batch, in microseconds.
  *
  * @param watermark     left rows expire by it
  * @param lateWatermark rows are late by it: the watermark of the micro-batch before
  * @param bucketWidth   of a section of a run
  * @param release       when left rows are emitted after they have expired
  * @param partitions    how many the join has, or had when the batch began
  * @param earlier       the window of the batches before, if it has grown with this one
  * @param closed        left rows up to this time are emitted in any case; none: those that have expired
  * @param grown         the windows of all batches
  * @param incompleteAfter left rows after this time are emitted without a stream that is excluded; none: there is none
  * @param keepsMore     whether left rows that were emitted in earlier batches lack columns that amendments need
  */
final case class LabelJoinTimes(
    watermark: Long,
    lateWatermark: Long,
    bucketWidth: Long,
    release: ReleaseSteps,
    partitions: Int = 1,
    earlier: Option[JoinWindow] = None,
    closed: Option[Long] = None,
    grown: Seq[Growth] = Nil,
    keepsMore: Boolean = false,
    incompleteAfter: Option[Long] = None
)
