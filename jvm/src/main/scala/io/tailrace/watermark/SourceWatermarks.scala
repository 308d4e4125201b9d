package io.tailrace.watermark

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.{SparkPlans, StreamInputs, StreamingBatch}

import io.tailrace.common.TailraceConf
import io.tailrace.driver.{PartitionAccumulator, RunState}

/** The node of a plan that a source stands for. */
trait OfSource extends LogicalPlan {
  def settings: ProgressSettings
}

object OfSource {
  private[tailrace] def is(name: String)(plan: LogicalPlan): Boolean = plan match {
    case source: OfSource => source.settings.name == name
    case _ => false
  }
}

/** The sources of the queries that run in this driver. */
private[watermark] object SourceWatermarks {
  private val sources = new RunState[SourceWatermark]

  /** The source of that name in the run that is being planned or executed in this thread. */
  def of(session: SparkSession, settings: ProgressSettings): SourceWatermark =
    sources.of(session, settings.name)(open(session, settings, StreamingBatch.current(session)))

  private def open(
      session: SparkSession,
      settings: ProgressSettings,
      batch: StreamingBatch
  ): SourceWatermark = {
    val directory = new Path(new Path(batch.checkpointRoot, "tailrace-watermark"), settings.name)
    val beginsAnew = TailraceConf.WatermarkBeginAnew.read(SparkPlans.activeSetting)
    new SourceWatermark(
      settings,
      new ProgressLog(directory, session.sessionState.newHadoopConf(), beginsAnew),
      () => PartitionAccumulator.registered(session.sparkContext),
      askedMs =>
        BatchInput(
          askedMs,
          StreamInputs.all(session).hasNew,
          below(session, settings).hasUnread
        ),
      session.sessionState.conf.minBatchesToRetain,
      settings.server.map { server =>
        val reporter = Reporters.of(session, batch.queryId, batch.runId, server)
        def all = StreamInputs.below(session, _.isInstanceOf[OfSource]).names
        new ServerClient(server, settings, reporter, () => QueryReads(below(session, settings).names, all))
      }
    )
  }

  private def below(session: SparkSession, settings: ProgressSettings): StreamInputs =
    StreamInputs.below(session, OfSource.is(settings.name))
}
