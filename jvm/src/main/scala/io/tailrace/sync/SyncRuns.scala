package io.tailrace.sync

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.StreamingRun
import org.apache.spark.util.AccumulatorV2

import io.tailrace.driver.PerRun

/** The synced joins of the queries that run in this driver. */
private[sync] object SyncRuns {
  private val runs = new PerRun[SyncJoinRun]

  /** The join of that name in the run that is planned or executed in this thread. */
  def of(session: SparkSession, settings: SyncSettings): SyncJoinRun = {
    val run = StreamingRun.current(session)
    runs.get(session, run.runId, settings.name)(open(session, settings, run))
  }

  /** That of the query whose thread asks. */
  def current(settings: SyncSettings): SyncJoinRun =
    of(SparkSession.active.asInstanceOf[SparkSession], settings)

  private def open(session: SparkSession, settings: SyncSettings, run: StreamingRun): SyncJoinRun = {
    val directory = SyncLog.directory(run.checkpointRoot, settings.name)
    new SyncJoinRun(
      settings,
      new SyncLog(
        directory,
        session.sessionState.newHadoopConf(),
        () => run.logicalPlan.collect { case side: ReadsSide => side.settings.name }.toSet
      ),
      new Accumulators {
        override def register[A <: AccumulatorV2[_, _]](accumulator: A): A = {
          session.sparkContext.register(accumulator)
          accumulator
        }
      },
      session.sessionState.conf.minBatchesToRetain,
      run.endsByItself
    )
  }
}

/** Registers accumulators with Spark. */
private[sync] trait Accumulators {
  def register[A <: AccumulatorV2[_, _]](accumulator: A): A
}
