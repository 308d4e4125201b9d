package org.apache.spark.sql.tailrace

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.execution.streaming.runtime._

/** The watermark of one stream of a query: its newest event time, less its delay.
  *
  * @param column of the event time
  * @param ms     since 1970
  */
final case class StreamWatermark(column: String, ms: Long)

/** The watermarks from which Spark computes a query's. Spark has no method that returns them.
  *
  * {{{
  *   served_at   12:07 ─┐
  *                      ├─ the query's, by the policy "min": 12:05, and clicked_at holds it
  *   clicked_at  12:05 ─┘
  * }}}
  */
object StreamWatermarks {

  /** Those of a query that runs, of streams that have had a row since its start. */
  def of(queryId: UUID): Seq[StreamWatermark] =
    SparkSession.getDefaultSession.orElse(SparkSession.getActiveSession).toSeq.flatMap { session =>
      Option(session.sharedState.activeStreamingQueries.get(queryId)).toSeq.flatMap {
        case query: MicroBatchExecution => tracker(query).toSeq.flatMap(of(query, _))
        case _ => Nil
      }
    }

  /** Those of the query of this thread, by the node of a stream; none for a stream without a row since its start.
    */
  def current(session: SparkSession): Map[UUID, Option[Long]] = StreamingRun.execution(session) match {
    case query: MicroBatchExecution =>
      tracker(query).fold(Map.empty[UUID, Option[Long]])(tracker =>
        tracker.synchronized(byNode(tracker).toMap)
      )
    case _ => Map.empty
  }

  private def of(query: MicroBatchExecution, tracker: WatermarkTracker): Seq[StreamWatermark] = {
    val known = tracker.synchronized(byNode(tracker).toMap)
    query.logicalPlan.collect { case w: EventTimeWatermark =>
      known.get(w.nodeId).flatten.map(StreamWatermark(w.eventTime.name, _))
    }.flatten
  }

  /** None until the query's thread has made it. Scala's `protected` is public for the JVM. */
  private[tailrace] def tracker(query: MicroBatchExecution): Option[WatermarkTracker] =
    Option(classOf[MicroBatchExecution].getMethod("watermarkTracker").invoke(query)).collect {
      case tracker: WatermarkTracker => tracker
    }

  /** By the node of a stream. To be used while the tracker is locked: the query's thread changes it. */
  private[tailrace] def byNode(tracker: WatermarkTracker): mutable.Map[UUID, Option[Long]] = {
    val ofStreams = classOf[WatermarkTracker].getDeclaredMethod("operatorToWatermarkMap")
    ofStreams.setAccessible(true)
    ofStreams.invoke(tracker).asInstanceOf[mutable.Map[UUID, Option[Long]]]
  }
}
