package io.tailrace.recursion

import java.util.UUID

import scala.collection.mutable.ListBuffer

import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.tailrace.{SparkSession, StreamingBatch}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.AccumulatorV2

import io.tailrace.driver.{BatchSequence, DriverWatermark, InputWatermarks, RunState, SparkWatermark}

/** Knows on the driver, for one run of a query, the oldest row that goes round, and the query's other
  * watermarks. Spark plans each batch anew, so a plan can't keep them.
  */
private[recursion] final class RowsInFlight {
  private val batches = new BatchSequence[ListBuffer[OldestTime]]((_, _) => ListBuffer.empty)
  private val inputs = new InputWatermarks

  /** Takes the event times that a micro-batch feeds back. With a DataFrame that is used twice there are two.
    */
  def collect(batch: Long, times: OldestTime): Unit = synchronized { batches.at(batch) += times }

  /** True if all tasks of a batch have written their files. */
  def isComplete(finished: Long): Boolean = synchronized {
    batches.of(finished).exists(_.exists(_.isComplete))
  }

  /** The watermark after a batch, in milliseconds.
    *
    * @param seen the watermark of each input by the rows of the batch, if there were any
    */
  def watermark(finished: Long, seen: Map[UUID, Option[Long]]): Option[Long] = synchronized {
    HeldWatermark.after(inputs.after(seen), oldestOf(finished))
  }

  /** The oldest event time that a batch has fed back, in microseconds. */
  def oldestOf(finished: Long): Option[Long] = synchronized {
    batches.of(finished).flatMap(_.flatMap(_.value).minOption)
  }
}

private[recursion] object RowsInFlight {
  private val all = new RunState[RowsInFlight]

  /** The rows in flight of the run that this thread plans or executes. */
  def of(session: SparkSession, recursion: String): RowsInFlight =
    all.of(session, recursion)(new RowsInFlight)
}

/** The minimum event time that tasks have seen, in microseconds, and the tasks that have ended: a sink may run
  * a batch's tasks several times.
  *
  * @param tasks the number of tasks
  */
private[recursion] final class OldestTime(tasks: Int) extends AccumulatorV2[Long, Option[Long]] {
  private var least = Long.MaxValue
  private var ended = Set.empty[Int]

  def isComplete: Boolean = ended.size == tasks

  /** Called in a task that has seen all of its rows. */
  def end(task: Int): Unit = ended += task

  override def isZero: Boolean = least == Long.MaxValue && ended.isEmpty
  override def reset(): Unit = {
    least = Long.MaxValue
    ended = Set.empty
  }
  override def add(micros: Long): Unit = least = Math.min(least, micros)
  override def merge(other: AccumulatorV2[Long, Option[Long]]): Unit = other match {
    case times: OldestTime =>
      least = Math.min(least, times.least)
      ended ++= times.ended
    case _ => throw new IllegalArgumentException(s"not the times of a task: $other")
  }
  override def value: Option[Long] = Option.when(least != Long.MaxValue)(least)

  override def copy(): OldestTime = {
    val same = new OldestTime(tasks)
    same.least = least
    same.ended = ended
    same
  }
}

/** The watermark of the rows that are fed back: the minimum of the query's other watermarks, but before the
  * rows in flight. Spark takes the minimum of all watermarks.
  */
private[recursion] final case class RecursionWatermark(recursion: String) extends DriverWatermark {
  override def nodeName: String = "HeldWatermark"
  override def followsOthers: Boolean = true
  override def after(batch: StreamingBatch, session: SparkSession): Option[Long] =
    RowsInFlight.of(session, recursion).watermark(batch.batchId, InputWatermarks.of(session))
}

/** The event times of a row: the columns that a watermark is on, timestamps or windows.
  *
  * @param ordinals of those columns
  */
private[recursion] final class EventTimes(columns: Seq[Attribute], ordinals: Seq[Int]) {
  private val places = ordinals.toArray
  private val windows = places.map { i =>
    columns(i).dataType match {
      case window: StructType => window.length
      case _ => 0
    }
  }

  /** The oldest of them, in microseconds. A window's time is its end: it is late when that is late. */
  def oldest(row: UnsafeRow): Option[Long] = {
    var least = Long.MaxValue
    var i = 0
    while (i < places.length) {
      if (!row.isNullAt(places(i))) {
        val time =
          if (windows(i) == 0) row.getLong(places(i)) else row.getStruct(places(i), windows(i)).getLong(1)
        least = Math.min(least, time)
      }
      i += 1
    }
    if (least == Long.MaxValue) None else Some(least)
  }
}

/** The watermark of a query while rows go round: a row that is on time must not become late by going round.
  *
  * {{{
  *   the inputs' watermark 12:30, the oldest row in flight 12:10  ->  just before 12:10
  *   the inputs' watermark 12:30, nothing in flight               ->  12:30
  * }}}
  */
object HeldWatermark {

  /** @param inputs         the watermarks of all inputs, in milliseconds; without one the watermark waits
    * @param inFlightMicros the oldest event time that goes round
    * @return the last whole millisecond at which no row is late; none: no watermark yet
    */
  def after(inputs: Seq[Option[Long]], inFlightMicros: Option[Long]): Option[Long] =
    if (inputs.isEmpty || inputs.exists(_.isEmpty)) None
    else Some((inputs.flatten ++ inFlightMicros.map(SparkWatermark.before)).min).filter(_ > 0)
}
