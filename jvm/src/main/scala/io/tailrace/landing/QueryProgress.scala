package io.tailrace.landing

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.tailrace.LandedWatermark

import io.tailrace.progress.{Completeness, HostTable, QuerySource, SourceHosts}

/** How far a query is when a batch has landed.
  *
  * @param low      all its rows before this time have landed, in microseconds, but for those of hosts that lag
  * @param hasState whether rows wait in operators
  */
private[landing] final case class QueryProgress(low: Long, hasState: Boolean, sources: Seq[QuerySource]) {
  def completeness: Completeness = sources.map(_.completeness).foldLeft(Completeness.Whole)(_ andThen _)

  def hosts(source: String, through: Long): Option[SourceHosts] =
    sources.find(_.name == source).map(_.hosts(through))
}

private[landing] object QueryProgress {

  /** In the thread of the query. The sources then take in what the batch has read, and tell a server of it.
    *
    * @param watermarkMs Spark's, of the batch
    */
  def after(session: SparkSession, plan: SparkPlan, watermarkMs: Long): QueryProgress = {
    val nodes = LandedWatermark.sources(plan)
    val sources = QuerySource.of(session, nodes)
    val low = LandedWatermark.of(plan, watermarkMs, node => QuerySource.low(node, sources))
    QueryProgress(low.getOrElse(HostTable.Never), LandedWatermark.hasState(plan), sources)
  }
}
