package io.tailrace.windows

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.tailrace.LandedWatermark

import io.tailrace.driver.SparkWatermark
import io.tailrace.watermark.{
  Completeness,
  HostTable,
  QuerySource,
  QueryTopology,
  ServerSettings,
  SourceHosts
}

/** How far a query is when a batch has landed.
  *
  * @param low       all its rows before this time have landed, in microseconds, but for those of hosts that lag
  * @param hasState  whether rows wait in operators
  * @param upstreams the operators whose rows come to the sink, by the names that a server has them under
  */
private[windows] final case class QueryProgress(
    low: Long,
    hasState: Boolean,
    sources: Seq[QuerySource],
    upstreams: Seq[String]
) {
  def completeness: Completeness = sources.map(_.completeness).foldLeft(Completeness.Whole)(_ andThen _)

  def hosts(source: String, through: Long): Option[SourceHosts] =
    sources.find(_.name == source).map(_.hosts(through))
}

private[windows] object QueryProgress {

  /** In the thread of the query. The sources then take in what the batch has read, and tell a server of it.
    *
    * @param watermarkMs Spark's, of the batch
    * @param server      that the sink tells how far it is
    */
  def after(
      session: SparkSession,
      plan: SparkPlan,
      watermarkMs: Long,
      server: Option[ServerSettings]
  ): QueryProgress = {
    val nodes = LandedWatermark.sources(plan)
    val sources = QuerySource.of(session, nodes)
    val low = LandedWatermark.of(plan, watermarkMs, QuerySource.low(_, sources), SparkWatermark.after)
    val upstreams = server.toSeq.flatMap(QueryTopology.above(plan, _))
    QueryProgress(low.getOrElse(HostTable.Never), LandedWatermark.hasState(plan), sources, upstreams)
  }
}
