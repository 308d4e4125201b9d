package org.apache.spark.sql.tailrace

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.runtime._

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
