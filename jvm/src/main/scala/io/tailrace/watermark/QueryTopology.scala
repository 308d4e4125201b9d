package io.tailrace.watermark

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.tailrace.{
  OperatorWords,
  OutputWatermark,
  RunningBatch,
  SparkSession,
  StateStoreWriter,
  StreamingBatch,
  StreamingPlan
}

import io.tailrace.common.SparkWatermark
import io.tailrace.driver.{DriverWatermark, DriverWatermarkExec, HeldWork, ReportingSink}

/** The progress of one operator of a query, for a watermark server.
  *
  * @param words         what it does, for people
  * @param lowWatermarks output low watermarks by state partition, in microseconds; [[SparkWatermark.Never]]
  *                      for none. Empty: those of its input
  * @param keyGroups     the number of state partitions now. An earlier checkpoint may have had more
  */
final case class OperatorReport(
    name: String,
    kind: String,
    words: String,
    upstreams: Seq[String],
    lowWatermarks: Map[String, Long],
    keyGroups: Int
)

/** The watermark of one source in a plan, by which the source is recognised. */
private[watermark] trait WatermarkOfSource extends DriverWatermark {
  def settings: ProgressSettings
}

private[watermark] object WatermarkOfSource {

  /** The settings of the source whose watermark a node holds; none if it holds no source's. */
  def settings(node: SparkPlan): Option[ProgressSettings] = node match {
    case own: DriverWatermarkExec =>
      Some(own.watermark).collect { case of: WatermarkOfSource => of.settings }
    case _ => None
  }
}

/** The operators of a query in its reports to a watermark server: those with state, recursions, and the sink.
  *
  * {{{
  *   clicks ──┐                                               the join holds (A, 12:00) until 12:30 is
  *            ├─> clicks/tailraceLabelJoin-0 ─> clicks/sink   passed: it is at 12:00, however far the
  *   views ───┘                                               sources are
  * }}}
  *
  * One source reports them: the first one by name of those with the same application. Its name is the prefix
  * of their names.
  *
  * @param plan    the executed plan
  * @param current the query's watermark in the batch, in milliseconds. The sink has all rows that it has
  *                released
  * @param sink    the sink's words. None if it reports itself: then it isn't among them
  */
private[watermark] final class QueryTopology(
    plan: SparkPlan,
    current: Long,
    sink: Option[String],
    server: ServerSettings
) {
  import QueryTopology.{keepsRows, reportedBy, sources}

  private val prefix = sources(plan, server).min

  /** Empty if another source reports them. */
  def reports: Seq[OperatorReport] =
    if (server.operator != prefix) Nil
    else StreamingPlan.nodes(plan).filter(keepsRows).distinct.flatMap(operator) ++ sinkReport

  private def sinkReport: Option[OperatorReport] =
    sink.map(OperatorReport(encoded("sink"), "sink", _, upstreams(plan), Map.empty, 0))

  private def operator(operator: SparkPlan): Option[OperatorReport] = {
    val above = upstreams(StreamingPlan.inputs(operator))
    Option.when(above.nonEmpty) {
      val input = micros(StreamingPlan.inputs(operator).flatMap(OutputWatermark.of(_, current)).minOption)
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
      OperatorReport(name(operator), "operator", words(operator), above, lows, groups)
    }
  }

  private def name(operator: SparkPlan): String = operator match {
    case own: HeldWork => encoded(own.workName)
    case writer: StateStoreWriter =>
      encoded(s"${writer.shortName}-${writer.stateInfo.fold(0L)(_.operatorId)}")
    case other => throw new IllegalArgumentException(s"${other.nodeName} keeps no rows")
  }

  private def words(operator: SparkPlan): String = operator match {
    case own: HeldWork => own.words
    case writer: StateStoreWriter => OperatorWords.of(writer)
    case other => other.nodeName
  }

  private def encoded(name: String): String = WireName.encode(s"$prefix/$name")

  private def upstreams(plans: Seq[SparkPlan]): Seq[String] = plans.flatMap(upstreams(_)).distinct

  /** The nearest operators below that are reported. */
  private def upstreams(plan: SparkPlan): Seq[String] =
    if (keepsRows(plan) && sources(plan, server).nonEmpty) Seq(name(plan))
    else
      WatermarkOfSource.settings(plan) match {
        case Some(source) => reportedBy(source, server).toSeq
        case None => upstreams(StreamingPlan.inputs(plan))
      }

  private def micros(watermarkMs: Option[Long]): Long =
    watermarkMs.fold(SparkWatermark.Never)(SparkWatermark.after)
}

object QueryTopology {

  /** The reports of the batch that ends in this thread, or has ended.
    *
    * @param watermarkMs the query's watermark by which its operators have emitted what they can
    */
  def of(session: SparkSession, watermarkMs: Long, server: ServerSettings): Seq[OperatorReport] = {
    val running = StreamingBatch.running(session)
    val sink = running.sink match {
      case sink: ReportingSink if sink.reports => None
      case _ => Some(sinkWords(running))
    }
    new QueryTopology(running.plan, watermarkMs, sink, server).reports
  }

  /** True if a plan has operators that are reported to the server. */
  def hasOperators(plan: SparkPlan): Boolean = StreamingPlan.nodes(plan).exists(keepsRows)

  private def keepsRows(node: SparkPlan): Boolean =
    node.isInstanceOf[StateStoreWriter] || node.isInstanceOf[HeldWork]

  private def sinkWords(batch: RunningBatch): String = {
    val named = batch.name.fold("sink")(name => s"sink of $name")
    OperatorWords.sink(batch.sink).fold(named)(kind => s"$named ($kind)")
  }

  /** The operators that emit the rows of a plan: the upstreams of a sink that reports itself. */
  def above(plan: SparkPlan, server: ServerSettings): Seq[String] =
    if (sources(plan, server).isEmpty) Nil else new QueryTopology(plan, 0, None, server).upstreams(plan)

  /** The names of the sources below that report to the same application. */
  private def sources(plan: SparkPlan, server: ServerSettings): Seq[String] =
    StreamingPlan.nodes(plan).flatMap(WatermarkOfSource.settings(_)).flatMap(reportedBy(_, server)).distinct

  private def reportedBy(source: ProgressSettings, server: ServerSettings): Option[String] =
    source.server.filter(_.isBeside(server)).map(_.operator)
}
