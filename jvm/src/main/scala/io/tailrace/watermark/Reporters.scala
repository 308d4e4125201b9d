package io.tailrace.watermark

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.StreamingBatch

import io.tailrace.driver.RunState

/** The reporters of queries that run in this driver: one for each run and application, whatever part of the query reports. */
object Reporters {
  private val reporters = new RunState[Reporter]

  /** @param queryId of a query that runs
    * @param runId   of this start
    */
  def of(session: SparkSession, queryId: String, runId: String, server: ServerSettings): Reporter =
    reporters.of(session, runId, s"${server.url.stripSuffix("/")} ${server.app}") {
      val isActive = () => StreamingBatch.activeRuns(session).contains(runId)
      Reporter.remember(new Reporter(server, queryId, runId, isActive)).start()
    }
}
