package org.apache.spark.sql.tailrace

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.HexFormat

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.Table

/** Tells a sink about the query that it is part of. */
object StreamingSinks {

  /** Whether a query runs that has this sink. */
  def isActive(session: SparkSession, sink: Table): Boolean = run(session, sink).isDefined

  /** The ids of the query that runs and has this sink, and of its start. */
  def run(session: SparkSession, sink: Table): Option[(String, String)] =
    session.sharedState.activeStreamingQueries.values.asScala
      .find(_.sink eq sink)
      .map(query => query.id.toString -> query.runId.toString)

  /** A digest of the end offsets of a micro-batch's sources. */
  def offsets(session: SparkSession, queryId: String, batchId: Long): String = {
    val text = StreamingRun.execution(session, queryId).offsetLog.get(batchId).map(_.toString)
    require(text.isDefined, s"the offset log has no batch $batchId")
    HexFormat.of.formatHex(MessageDigest.getInstance("SHA-256").digest(text.get.getBytes(UTF_8)))
  }
}
