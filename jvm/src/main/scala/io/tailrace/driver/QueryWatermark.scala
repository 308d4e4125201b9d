package io.tailrace.driver

import org.apache.spark.sql.tailrace.{SparkSession, StreamWatermarks, StreamingRun}

/** The watermark of this thread's query after a batch, and the inputs that hold it back. */
private[tailrace] object QueryWatermark {

  /** @param nowMs the watermark in the batch of the operator in question; 0: none yet */
  def facts(session: SparkSession, nowMs: Long): WatermarkFacts = {
    val run = StreamingRun.current(session)
    val times = StreamWatermarks.current(session)
    // A DataFrame that is used twice is two nodes with one id.
    val nodes = run.watermarkNodes.distinctBy(_.nodeId).filter {
      case own: DriverWatermarkExec => !own.watermark.followsOthers
      case _ => true
    }
    WatermarkFacts(
      Option.when(nowMs > 0)(nowMs * 1000),
      run.followsLatestWatermark,
      nodes.map(node => StreamFacts(node.eventTime.name, times.get(node.nodeId).flatten.map(_ * 1000))),
      sources = nodes.collect { case own: DriverWatermarkExec => own.watermark.waits(session) }.flatten
    )
  }
}
