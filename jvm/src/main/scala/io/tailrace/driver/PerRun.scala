package io.tailrace.driver

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.StreamingBatch

/** What the driver keeps for operators of queries that run in it, by the run and the operator's name: plans are made anew
  * for each batch, so they can't keep it. What belongs to runs that have ended goes when something new comes.
  */
private[tailrace] final class PerRun[T] {
  private val all = new ConcurrentHashMap[(String, String), T]

  def get(session: SparkSession, runId: String, name: String)(open: => T): T = {
    val key = (runId, name)
    if (!all.containsKey(key)) {
      val active = StreamingBatch.activeRuns(session)
      all.keySet.removeIf { case (run, _) => !active(run) }
    }
    all.computeIfAbsent(key, _ => open)
  }
}
