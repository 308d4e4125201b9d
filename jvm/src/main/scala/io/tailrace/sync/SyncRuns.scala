package io.tailrace.sync

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.{StreamingBatch, StreamingRun}
import org.apache.spark.util.CollectionAccumulator

/** The synced joins of the queries that run in this driver. Plans are made anew for each batch, so they can't keep them. */
private[sync] object SyncRuns {
  private val runs = new ConcurrentHashMap[(String, String), SyncJoinRun]

  /** The join of that name in the run that is planned or executed in this thread. */
  def of(session: SparkSession, settings: SyncSettings): SyncJoinRun = {
    val run = StreamingRun.current(session)
    val key = (run.runId, settings.name)
    if (!runs.containsKey(key)) {
      val active = StreamingBatch.activeRuns(session)
      runs.keySet.removeIf { case (id, _) => !active(id) }
    }
    runs.computeIfAbsent(key, _ => open(session, settings, run))
  }

  /** That of the query whose thread asks. */
  def current(settings: SyncSettings): SyncJoinRun =
    of(SparkSession.active.asInstanceOf[SparkSession], settings)

  private def open(session: SparkSession, settings: SyncSettings, run: StreamingRun): SyncJoinRun = {
    val directory = SyncLog.directory(run.checkpointRoot, settings.name)
    new SyncJoinRun(
      settings,
      new SyncLog(directory, session.sessionState.newHadoopConf()),
      new Accumulators {
        override def make[T](): CollectionAccumulator[T] = {
          val accumulator = new CollectionAccumulator[T]
          session.sparkContext.register(accumulator)
          accumulator
        }
      },
      session.sessionState.conf.minBatchesToRetain
    )
  }
}

/** Makes accumulators that are registered with Spark. */
private[sync] trait Accumulators {
  def make[T](): CollectionAccumulator[T]
}
