package org.apache.spark.sql.tailrace

import java.util.UUID
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeStats, EventTimeStatsAccum}
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, StreamingQueryManager}
import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.apache.spark.util.Clock

/** The watermark of one stream of a query: its newest event time, less its delay.
  *
  * @param column of the event time
  * @param ms     since 1970
  */
final case class StreamWatermark(column: String, ms: Long)

/** The streams from which Spark computes the watermark of a query.
  *
  * @param watermarks     of the streams that have had a row since the query's start
  * @param unseen         columns of the event times of the others
  * @param followsLatest  whether the latest of them is the query's, by the policy `max`
  */
final case class QueryStreams(
    watermarks: Seq[StreamWatermark] = Nil,
    unseen: Seq[String] = Nil,
    followsLatest: Boolean = false
)

/** The watermarks from which Spark computes a query's. Spark has no method that returns them.
  *
  * {{{
  *   served_at   12:07 ─┐
  *                      ├─ the query's, by the policy "min": 12:05, and clicked_at holds it
  *   clicked_at  12:05 ─┘
  * }}}
  */
object StreamWatermarks {

  /** The watermark nodes of a plan: the streams in it, as [[current]] knows them. */
  def nodesIn(plan: LogicalPlan): Set[UUID] = plan.collect { case w: EventTimeWatermark => w.nodeId }.toSet

  /** Those of a query that runs. */
  def of(queryId: UUID): QueryStreams =
    SparkSession.getDefaultSession
      .orElse(SparkSession.getActiveSession)
      .flatMap(session => Option(session.sharedState.activeStreamingQueries.get(queryId)))
      .collect { case query: MicroBatchExecution => query }
      .flatMap(query => tracker(query).map(of(query, _)))
      .getOrElse(QueryStreams())

  /** Those of the query of this thread, by the node of a stream; none for a stream without a row since its start.
    */
  def current(session: SparkSession): Map[UUID, Option[Long]] = StreamingRun.execution(session) match {
    case query: MicroBatchExecution =>
      tracker(query).fold(Map.empty[UUID, Option[Long]])(tracker =>
        tracker.synchronized(byNode(tracker).toMap)
      )
    case _ => Map.empty
  }

  /** Sets the watermarks of streams of the query of this thread at a time at least, so that they don't hold the query's
    * back. To be called within a batch: Spark computes the query's watermark from them when it ends.
    *
    * @param nodes of the streams
    * @param ms    event time, in milliseconds
    */
  def raise(session: SparkSession, nodes: Set[UUID], ms: Long): Unit = StreamingRun.execution(session) match {
    case query: MicroBatchExecution => raise(query, nodes, _ => ms)
    case _ =>
  }

  /** @param ms to which the watermark of a node is raised */
  private[tailrace] def raise(query: MicroBatchExecution, nodes: Set[UUID], ms: UUID => Long): Unit =
    tracker(query).foreach { tracker =>
      tracker.synchronized {
        val watermarks = byNode(tracker)
        nodes.foreach { node =>
          watermarks(node) = Some(watermarks.get(node).flatten.fold(ms(node))(Math.max(_, ms(node))))
        }
      }
    }

  private def of(query: MicroBatchExecution, tracker: WatermarkTracker): QueryStreams = {
    val known = tracker.synchronized(byNode(tracker).toMap)
    // A DataFrame that is used twice is two nodes with one id.
    val streams = query.logicalPlan
      .collect { case w: EventTimeWatermark => w }
      .distinctBy(_.nodeId)
      .map(w => w.eventTime.name -> known.get(w.nodeId).flatten)
    QueryStreams(
      streams.collect { case (column, Some(ms)) => StreamWatermark(column, ms) },
      streams.collect { case (column, None) => column },
      StreamingRun.followsLatestWatermark(query)
    )
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

/** Moves the watermark of a query between two of its micro-batches, as the end of a micro-batch does. For other threads
  * than the query's.
  *
  * {{{
  *   12:00:00   batch 7 is committed; the sources have nothing new, and Spark asks them again and again
  *   12:00:30   a watermark node of batch 7 knows a later watermark: tryMove has Spark's tracker ask all nodes
  *   12:00:30   Spark asks the operators of batch 7: if one closes something by it, batch 8 runs without rows
  * }}}
  *
  * The watermark of batch 8 is in its entry of the offset log, so a batch that runs again has the same one.
  */
final class BetweenBatches private (query: MicroBatchExecution) {
  import BetweenBatches._

  /** Spark makes and ends micro-batches under this lock. Scala's `protected` is public for the JVM. */
  private def progressLock: ReentrantLock =
    classOf[StreamExecution].getMethod("awaitProgressLock").invoke(query).asInstanceOf[ReentrantLock]

  /** Updates the watermark nodes, and makes Spark ask all of them, including those that follow others.
    *
    * If a micro-batch runs or is being made, or none has run in this start, nothing is moved.
    *
    * @param move is called in this thread, while Spark neither makes nor ends a micro-batch
    */
  def tryMove(move: => Unit): Unit = behindLast { batch =>
    move
    update(batch)
  }

  /** Calls a function with the query's watermark, in milliseconds, if no operator closes something by it: then the next
    * micro-batch comes with the next row, and until then the operators can't advance further. If a micro-batch runs,
    * is being made or will follow, the function isn't called.
    *
    * @param settled is called as `move` is, and with the local properties of the last micro-batch
    */
  def ifSettled(settled: Long => Unit): Unit = behindLast { batch =>
    StreamWatermarks.tracker(query).map(_.currentWatermark).foreach { watermarkMs =>
      val madeMs = batch.offsetSeqMetadata.batchTimestampMs
      val next = OffsetSeqMetadata(watermarkMs, madeMs, Map.empty[String, String])
      if (!batch.shouldRunAnotherBatch(next)) inBatch(batch)(settled(watermarkMs))
    }
  }

  /** Calls a function with the last micro-batch, if it is committed. */
  private def behindLast(body: IncrementalExecution => Unit): Unit = {
    val lock = progressLock
    // A source that doesn't answer keeps the lock for long, and this thread has other work.
    if (lock.tryLock(Patience, TimeUnit.MILLISECONDS))
      try Option(query.lastExecution).filter(isCommitted).foreach(body)
      finally lock.unlock()
  }

  /** True if a batch is the last one that Spark has made, and is committed. Both logs are written under the lock. */
  private def isCommitted(batch: IncrementalExecution): Boolean =
    query.isActive && Seq(query.offsetLog, query.commitLog)
      .forall(_.getLatestBatchId().contains(batch.currentBatchId))

  private def update(batch: IncrementalExecution): Unit = StreamWatermarks.tracker(query).foreach { tracker =>
    val before = tracker.currentWatermark
    inBatch(batch)(tracker.updateWatermark(batch.executedPlan))
    // Spark has computed the watermarks of the next batch's operators from the one before, and refuses another one for
    // that batch. Those of earlier batches are recomputed when they are needed, as after a restart.
    if (tracker.currentWatermark != before) batch.watermarkPropagator.purge(batch.currentBatchId + 1)
  }

  /** The query's thread has these properties. */
  private def inBatch(batch: IncrementalExecution)(body: => Unit): Unit = {
    val context = batch.sparkSession.sparkContext
    val properties = Seq(
      StreamExecution.QUERY_ID_KEY -> query.id.toString,
      MicroBatchExecution.BATCH_ID_KEY -> batch.currentBatchId.toString
    )
    val before = properties.map { case (key, _) => key -> context.getLocalProperty(key) }
    set(context, properties)
    try batch.sparkSession.withActive(body)
    finally set(context, before)
  }

  private def set(context: SparkContext, properties: Seq[(String, String)]): Unit =
    properties.foreach { case (key, value) => context.setLocalProperty(key, value) }
}

object BetweenBatches {
  private val Patience = 200L

  /** The object of the query whose thread this is. */
  def current(session: SparkSession): Option[BetweenBatches] =
    Option(StreamingRun.execution(session)).collect { case query: MicroBatchExecution =>
      new BetweenBatches(query)
    }
}

/** A streaming query whose clock is controlled from outside, for tests of pipelines. */
final class ClockedQuery private (val query: StreamingQuery) {

  /** The watermark that the next batch has, in milliseconds; 0: none yet. */
  def watermarkMs: Long =
    StreamWatermarks.tracker(ClockedQuery.execution(query)).fold(0L)(_.currentWatermark)

  /** The watermarks of its streams, whose minimum is the query's: by the column of the event time. */
  def watermarks: Seq[StreamWatermark] = StreamWatermarks.of(query.id).watermarks
}

object ClockedQuery {

  /** Starts a query that makes batches as soon as there is something to do, at the times of a clock.
    *
    * @param each gets the rows of a batch, and its number
    */
  def start(frame: DataFrame, checkpoint: String, clock: RunClock, mode: OutputMode)(
      each: (Dataset[Row], Long) => Unit
  ): ClockedQuery = {
    val rows = frame.asInstanceOf[ClassicDataset[Row]]
    new ClockedQuery(
      rows.sparkSession.sessionState.streamingQueryManager.startQuery(
        userSpecifiedName = None,
        userSpecifiedCheckpointLocation = Some(checkpoint),
        df = rows,
        extraOptions = Map.empty,
        sink = new ForeachBatchSink[Row](each, ExpressionEncoder(frame.schema)),
        outputMode = mode,
        triggerClock = new GivenClock(clock)
      )
    )
  }

  /** Runs `body` while no query of the session plans a batch: rows that it adds to several sources are one batch. */
  def betweenBatches(queries: StreamingQueryManager)(body: => Unit): Unit =
    queries.active
      .sortBy(_.id)
      .foldLeft(() => body) { (inner, query) => () =>
        execution(query).withProgressLocked(inner())
      }()

  /** Moves the watermark of the query whose thread this is, as rows at a time in every stream would. To be called
    * within a batch, as rows do it: between two it is too late, because Spark has asked whether the next one is
    * needed.
    *
    * @param ms      event time, in milliseconds
    * @param isAsked whether it is for the query with this plan
    */
  def seeEventTime(ms: Long)(isAsked: LogicalPlan => Boolean): Unit =
    StreamingRun.execution(SparkSession.active) match {
      case query: MicroBatchExecution if isAsked(query.logicalPlan) => move(query, ms)
      case _ =>
    }

  /** Spark takes the query's watermark from those of its streams at the end of the batch. */
  private def move(query: MicroBatchExecution, ms: Long): Unit = {
    val delays = query.logicalPlan.collect { case w: EventTimeWatermark =>
      w.nodeId -> EventTimeWatermark.getDelayMs(w.delay)
    }.toMap
    StreamWatermarks.raise(query, delays.keySet, ms - delays(_))
  }

  private def execution(query: StreamingQuery): MicroBatchExecution =
    query.asInstanceOf[StreamingQueryWrapper].streamingQuery.asInstanceOf[MicroBatchExecution]

  private final class GivenClock(clock: RunClock) extends Clock {
    override def getTimeMillis(): Long = clock.wallMs
    override def nanoTime(): Long = clock.nanos
    override def waitTillTime(targetTime: Long): Long = throw new UnsupportedOperationException
  }
}

/** One event time that the driver knows, instead of those that Spark collects in tasks: the watermark may go as far as
  * this one.
  */
abstract class DriverEventTimes extends EventTimeStatsAccum {

  /** Milliseconds; none: there is none yet. Spark asks at the end of a batch, maybe several times. */
  protected def newestMs: Option[Long]

  override def value: EventTimeStats =
    newestMs.fold(EventTimeStats.zero)(ms => EventTimeStats(ms, ms, ms.toDouble, 1))

  override def isZero: Boolean = currentStats == EventTimeStats.zero
}
