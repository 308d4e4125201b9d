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

import io.tailrace.common.{Durations, EventTimes, WatermarkRules}
import io.tailrace.driver.{DriverClock, QuietQuery, RunState}
import io.tailrace.plan.WriteCheck

/** Lets the left rows of a join out when its query has had no input for long, though the watermark stands.
  *
  * {{{
  *   batch 7    left rows of 12:00 and 12:04 wait for 12:30; the sources have nothing more
  *   1 hour     Spark asks whether another batch is needed: yes, and batch 8 is noted to close through 12:04
  *   batch 8    no input: both rows come out. A left row that comes later is late up to 12:04
  * }}}
  *
  * The watermark stays where it is. It would have to go to the end of the longest window, and all that comes within that
  * time after the silence would be late, in the whole query. The note is in Spark's offset log: see [[BatchNotes]].
  *
  * @param limitMs see [[QuietQuery]]
  * @param waiting what the tasks of this batch have told
  */
private[tailrace] final class CloseAfter(exec: StoredJoinExec, limitMs: Long, waiting: WaitingLeft)
    extends Logging {
  private def session: SparkSession = exec.session
  private def quiet: QuietQuery = CloseAfter.queries.of(session, exec.workName)(new QuietQuery(limitMs))

  /** Left rows up to this time come out in this batch, whatever the watermark is, in microseconds; none: it decides. The
    * same whenever the batch runs.
    */
  lazy val through: Option[Long] = {
    val batch = StreamingBatch.current(session).batchId
    quiet.begins(batch, StreamInputs.all(session).hasNew)
    CloseAfter.noted(exec, batch)
  }

  /** True if the next batch closes what waits. Spark asks when it knows what that batch would read. */
  def needsBatch(): Boolean = {
    val isLong = quiet.asked(DriverClock.ms)
    val newest = waiting.newest.filter(_ => isLong && !isRead)
    newest.foreach { time =>
      BatchNotes.add(session, CloseAfter.key(exec), time.toString)
      quiet.beginAnew()
      logWarning(
        s"TAILRACE_CLOSED: the query has had no input for ${Durations.text(limitMs * 1000)}, so ${exec.workName} lets " +
          s"left rows up to ${EventTimes.iso(time)} out by close_after. Rows that come for them now are late"
      )
    }
    newest.nonEmpty
  }

  /** Left rows up to this time have come out before the watermark, if that is behind; after the tasks of the batch.
    *
    * @param expiry up to which time left rows are emitted by a watermark
    */
  def closedBefore(watermarkMs: Option[Long], expiry: Long => Long): Option[Long] =
    closedThrough.filter(_ > expiry(WatermarkRules.ofMillis(watermarkMs)))

  /** Left rows up to this time have been emitted in all partitions; none: the batch's tasks haven't all run. */
  def closedThrough: Option[Long] = waiting.expiredThrough(exec.getStateInfo.numPartitions)

  /** True if there is more to read, or the run ends when all has been read: then nobody knows what comes behind it. */
  private def isRead: Boolean =
    StreamingRun.current(session).endsByItself || StreamInputs.all(session).hasMore
}

private[tailrace] object CloseAfter {
  val Argument = "close_after"

  private val queries = new RunState[QuietQuery]
  private val reruns = new RunState[(Long, Option[Long])]

  private def key(exec: StoredJoinExec): String = s"tailrace.closed.${exec.workName}"

  private def noted(exec: StoredJoinExec, batch: Long): Option[Long] =
    BatchNotes.of(exec.session, batch, key(exec)).map(_.toLong)

  /** The same as `through` without the option. The first batch of a run may run again, after a start without the
    * option: what it has given to a sink doesn't change.
    */
  def throughOfRerun(exec: StoredJoinExec): Option[Long] = {
    val batch = StreamingBatch.current(exec.session).batchId
    val (first, through) = reruns.of(exec.session, exec.workName)(batch -> noted(exec, batch))
    through.filter(_ => batch == first)
  }

  /** Without batches that have no data, windows would stay open. */
  object Check extends WriteCheck {
    override def apply(start: QueryStart): Unit =
      if (!start.runsWithoutData) throw JoinErrors.closesInNoBatch()
  }
}
