package io.tailrace.watermark

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.tailrace.{OutputWatermark, StreamingBatch, StreamingPlan}

import io.tailrace.driver.{HeldWork, ReportingSink, SparkWatermark}

/** How far one operator of a query is, for a watermark server.
  *
  * @param lowWatermarks its output low watermarks by state partition, in microseconds; empty: its input's
  * @param keyGroups     how many of them there are, now: an earlier checkpoint may have had more
  */
final case class OperatorReport(
    name: String,
    kind: String,
    upstreams: Seq[String],
    lowWatermarks: Map[String, Long],
    keyGroups: Int
)

/** What a query makes of its sources' low watermarks: its operators with state, its recursions, and its sink.
  *
  * {{{
  *   clicks ──┐                                  the join holds (A, 12:00) until 12:30 is passed: 12:00,
  *            ├─> clicks/tailraceLabelJoin-0 ─> clicks/sink      however far the sources are
  *   views ───┘
  * }}}
  *
  * Names begin with that of the source that tells the server of them: the first one by name among those of the same
  * application.
  *
  * @param plan      as it ran
  * @param current   the query's watermark in the batch, in milliseconds: what it has let come out the sink has taken
  * @param sinkToo   whether the sink is to be told of; not if it tells of itself
  */
private[watermark] final class QueryTopology(
    plan: SparkPlan,
    current: Long,
    sinkToo: Boolean,
    server: ServerSettings
) {
  private val sources = QueryTopology.sources(plan, server)
  private val prefix = sources.min

  /** None but for the source that tells of them. */
  def reports: Seq[OperatorReport] =
    if (server.operator != prefix) Nil
    else {
      StreamingPlan.nodes(plan).filter(keepsRows).distinct.flatMap(operator) ++ sink
    }

  private def sink: Option[OperatorReport] =
    Option.when(sinkToo)(
      OperatorReport(WireName.encode(s"$prefix/sink"), "sink", upstreams(plan), Map.empty, 0)
    )

  private def keepsRows(node: SparkPlan): Boolean =
    node.isInstanceOf[StateStoreWriter] || node.isInstanceOf[HeldWork]

  private def operator(operator: SparkPlan): Option[OperatorReport] = {
    val above = upstreams(StreamingPlan.inputs(operator))
    Option.when(above.nonEmpty) {
      val input =
        micros(StreamingPlan.inputs(operator).flatMap(OutputWatermark.of(_, current)).minOption)
      val held = operator match {
        case own: HeldWork => own.oldestWaiting
        case _ => None
      }
      val lows = held match {
        case Some(waiting) =>
          waiting.map { case (partition, oldest) =>
            partition.toString -> oldest.fold(input)(Math.min(_, input))
          }
        case None => Map("0" -> micros(OutputWatermark.of(operator, current)))
      }
      val groups = operator match {
        case writer: StateStoreWriter if held.isDefined => writer.stateInfo.fold(lows.size)(_.numPartitions)
        case _ => lows.size
      }
      OperatorReport(name(operator), "operator", above, lows.view.mapValues(Math.max(0L, _)).toMap, groups)
    }
  }

  private def name(operator: SparkPlan): String = operator match {
    case own: HeldWork => WireName.encode(s"$prefix/${own.workName}")
    case writer: StateStoreWriter =>
      WireName.encode(s"$prefix/${writer.shortName}-${writer.stateInfo.fold(0L)(_.operatorId)}")
    case other => throw new IllegalArgumentException(s"${other.nodeName} keeps no rows")
  }

  private def upstreams(plans: Seq[SparkPlan]): Seq[String] = plans.flatMap(upstreams(_)).distinct

  /** The nearest operators below that the server hears of. */
  private def upstreams(plan: SparkPlan): Seq[String] = plan match {
    case node if keepsRows(node) && QueryTopology.sources(node, server).nonEmpty => Seq(name(node))
    case other =>
      val source = LowWatermark.of(other)
      source.fold(upstreams(StreamingPlan.inputs(other)))(QueryTopology.reportedBy(_, server).toSeq)
  }

  /** The beginning if there is none. */
  private def micros(watermarkMs: Option[Long]): Long =
    watermarkMs.fold(0L)(ms => Math.max(0L, SparkWatermark.after(ms)))
}

object QueryTopology {

  /** Of the batch that is being ended in this thread. */
  def of(
      session: SparkSession,
      batch: StreamingBatch,
      server: ServerSettings
  ): Seq[OperatorReport] = {
    val running = StreamingBatch.running(session)
    new QueryTopology(
      running.plan,
      batch.watermarkMs,
      running.sink match {
        case sink: ReportingSink => !sink.reports
        case _ => true
      },
      server
    ).reports
  }

  /** The operators that the server hears of whose rows come out of a plan: what a sink that reports itself reads from. */
  def above(plan: SparkPlan, server: ServerSettings): Seq[String] =
    if (sources(plan, server).isEmpty) Nil else new QueryTopology(plan, 0, false, server).upstreams(plan)

  /** The names of sources below that are of the same application. */
  private def sources(plan: SparkPlan, server: ServerSettings): Seq[String] =
    StreamingPlan.nodes(plan).flatMap(LowWatermark.of(_)).flatMap(reportedBy(_, server)).distinct

  private def reportedBy(source: ProgressSettings, server: ServerSettings): Option[String] =
    source.server.filter(_.isBeside(server)).map(_.operator)
}
