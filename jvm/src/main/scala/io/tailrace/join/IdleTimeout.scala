package io.tailrace.join

import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.{
  BatchNotes,
  QueryStart,
  SparkSession,
  StreamInputs,
  StreamingBatch,
  StreamingRun
}

import io.tailrace.common.{Arguments, Durations, EventTimes, Policy, TimeSpan, WatermarkRules}
import io.tailrace.driver.{IdleQuery, RunState}
import io.tailrace.plan.WriteCheck

/** Flushes the buffered rows of an idle query without advancing the watermark.
  *
  * {{{
  *   batch 7    left rows of 12:00 and 12:04 are buffered until 12:30; the sources have no more input
  *   1 hour     Spark asks whether another batch is needed: yes, and batch 8 is noted to close through 12:04
  *   batch 8    no input: both rows are emitted. From then on a left row up to 12:04 is late
  * }}}
  *
  * The watermark stays where it is. It would have to go to the end of the longest window, and all that comes within that
  * time after the idle time would be late, in the whole query. The note is in Spark's offset log: see [[BatchNotes]].
  *
  * @param work    the operator's name in the query, which the note has
  * @param limitMs see [[IdleQuery]]
  * @param newest  the time up to which the next batch flushes rows, in microseconds, as this batch's tasks have told; none:
  *                no row is buffered
  */
private[tailrace] class IdleFlush(session: SparkSession, work: String, limitMs: Long, newest: => Option[Long])
    extends Logging {
  private def idle: IdleQuery = IdleTimeout.queries.of(session, work)(new IdleQuery(limitMs))

  /** A batch begins, in the thread of its query. @return its number */
  def begin(): Long = {
    val batch = StreamingBatch.current(session).batchId
    idle.begins(batch, StreamInputs.all(session).hasNew)
    batch
  }

  /** True if the next batch flushes buffered rows. Spark asks when it knows the input of that batch. */
  def needsBatch(): Boolean = {
    val isLong = idle.asked(StreamingRun.current(session).clock.ms)
    val through = if (isLong && !isRead) newest else None
    through.foreach { time =>
      BatchNotes.add(session, IdleTimeout.key(work), time.toString)
      idle.beginAnew()
      logWarning(
        s"TAILRACE_CLOSED: the query has had no input for ${Durations.text(limitMs * 1000)}, so $work lets " +
          s"left rows up to ${EventTimes.iso(time)} out by idle_timeout. Rows that come for them now are late"
      )
    }
    through.nonEmpty
  }

  /** True if there is more to read, or the run ends when all has been read: then later input is unknown. */
  private def isRead: Boolean =
    StreamingRun.current(session).endsByItself || StreamInputs.all(session).hasMore
}

/** The same for joins whose left rows are emitted in the order of time.
  *
  * @param waiting as reported by the tasks of this batch
  */
private[tailrace] final class IdleTimeout(exec: PlannedJoin, limitMs: Long, waiting: WaitingLeft)
    extends IdleFlush(exec.session, exec.workName, limitMs, waiting.newest) {

  /** Left rows up to this time are emitted in this batch regardless of the watermark, in microseconds; none: the watermark
    * decides. The same in each attempt of the batch.
    */
  lazy val through: Option[Long] = IdleTimeout.noted(exec.session, exec.workName, begin())

  /** Left rows up to this time were emitted ahead of the watermark, if that is behind; after the tasks of the batch.
    *
    * @param expiry up to which time left rows are emitted by a watermark
    */
  def closedBefore(watermarkMs: Option[Long], expiry: Long => Long): Option[Long] =
    closedThrough.filter(_ > expiry(WatermarkRules.ofMillis(watermarkMs)))

  /** Left rows up to this time have been emitted in all partitions; none: the batch's tasks haven't all run. */
  def closedThrough: Option[Long] = waiting.expiredThrough(exec.partitions)
}

private[tailrace] object IdleTimeout {
  val Argument: String = IdleQuery.Argument

  private[join] val queries = new RunState[IdleQuery]
  private val reruns = new RunState[(Long, Option[Long])]

  private[join] def key(work: String): String = s"tailrace.closed.$work"

  /** The time up to which a batch flushes rows; none: it flushes none.
    *
    * @param work the name of the operator in the query
    */
  def noted(session: SparkSession, work: String, batch: Long): Option[Long] =
    BatchNotes.of(session, batch, key(work)).map(_.toLong)

  /** The same as `through` without the option. The first batch of a run may run again, after a start without the
    * option: what it has given to a sink doesn't change.
    */
  def throughOfRerun(exec: PlannedJoin): Option[Long] = {
    val batch = StreamingBatch.current(exec.session).batchId
    val (first, through) = reruns.of(exec.session, exec.workName)(
      batch -> noted(exec.session, exec.workName, batch)
    )
    through.filter(_ => batch == first)
  }

  /** Without batches that have no data, windows would stay open. */
  val Check: WriteCheck = BatchesWithoutData(s"`$Argument`")
}

/** Refuses an option that needs batches without data in a query that has none. */
private[tailrace] final case class BatchesWithoutData(option: String) extends WriteCheck {
  override def apply(start: QueryStart): Unit =
    if (!start.runsWithoutData) throw JoinErrors.closesInNoBatch(option)
}

/** The treatment of a part of a join's input that holds the join back, idle while other parts aren't.
  *
  * @param afterMs the idle time
  */
final case class OnStall(policy: Policy, afterMs: Long)

/** The arguments `on_stall` and `stall_after` of all calls. */
private[tailrace] object OnStall {

  /** A minute: a join that only waits is warned of nevertheless. */
  private val DefaultMs = 60L * 1000

  def afterMs(arguments: Arguments, stallAfter: Option[TimeSpan]): Long =
    stallAfter.fold(DefaultMs)(arguments.millis("stall_after", _))

  /** @param argument the one that has the policy */
  def policy(
      arguments: Arguments,
      argument: String,
      value: String,
      stallAfter: Option[TimeSpan],
      allowed: Seq[Policy] = Policy.onStall
  ): Policy = {
    val policy = arguments.choice(argument, value, allowed)
    if (stallAfter.isEmpty && policy != Policy.Pause)
      throw arguments.needs(argument, value, "stall_after, for instance stall_after='5 minutes'")
    policy
  }
}
