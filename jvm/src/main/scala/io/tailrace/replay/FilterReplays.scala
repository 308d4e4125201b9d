package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, RowOrdering}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.types._

import io.tailrace.common.{Arguments, CallDocument, Mark, Policy, ProgressName, TimeSpan}
import io.tailrace.driver.ReportExec
import io.tailrace.plan.{Columns, Obstacle, OwnColumns, TailraceNode, WriteCheck}

/** The logical node of `tailrace.filter_replays`. [[ReplayFilterExec]] explains the columns. */
case class FilterReplays(
    metadata: Seq[Attribute],
    order: Seq[Attribute],
    eventTime: Option[Attribute],
    settings: ReplaySettings,
    mark: Option[Attribute],
    child: LogicalPlan
) extends UnaryNode
    with TailraceNode {
  override def operator: String = "tailrace.filter_replays"
  override def writeChecks: Seq[WriteCheck] = Seq(FilterReplays.NamesCheck)

  override def refusedInRecursion: Option[Obstacle] =
    Some(Obstacle("filter_replays", "a row that comes round would be taken for a replay"))

  override def output: Seq[Attribute] = child.output ++ mark

  override def producedAttributes: AttributeSet = AttributeSet(mark)

  override protected def withNewChildInternal(newChild: LogicalPlan): FilterReplays = copy(child = newChild)
}

object FilterReplays {

  private val NamesCheck = WriteCheck.uniqueNames("tailrace.filter_replays") { case f: FilterReplays =>
    f.settings.name
  }
}

object ReplayFilterStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case f @ FilterReplays(metadata, order, eventTime, settings, mark, child) =>
      val inOrder = KafkaOrder.isKept(child, order)
      val exec =
        ReplayFilterExec(metadata, order, eventTime, settings, mark, inOrder, f.isStreaming, planLater(child))
      ReportExec(settings.progressName, exec) { case filter: ReplayFilterExec =>
        filter.counts.toRow
      } :: Nil
    case _ => Nil
  }
}

/** [[ReplayOptions]] after their check. */
final case class ReplaySettings(
    name: String,
    disorder: Int = 0,
    marksReplays: Boolean = false,
    forgetAfterMs: Option[Long] = None
) {

  /** The name of the filter's counts in `observedMetrics`. */
  def progressName: String = ProgressName("replays", name, ReplayOptions.Name)

  /** Origins that were last seen before the returned time are forgotten.
    *
    * @param clockMs the time now; `Long.MinValue` if it is unknown
    */
  def forgottenBefore(clockMs: Long): Long =
    forgetAfterMs.filter(clockMs >= Long.MinValue + _).fold(Long.MinValue)(clockMs - _)

  /** A copy of the marks before a batch, for those after it. Origins that were forgotten a batch ago need not
    * be kept: no task looks for them any more.
    */
  private[replay] def next(marks: MarkTable): MarkTable = marks.since(forgottenBefore(marks.newestMs))
}

/** The arguments of [[io.tailrace.api.Tailrace.filterReplays]] besides the DataFrame. Names and defaults are
  * those of Python.
  *
  * @param metadata one binary column of `stream_metadata`'s bytes; or three, of a producer id (bigint), a
  *                 source partition (int) and a source offset (bigint)
  * @param order    the columns of the topic and the partition that a record was read from, then of its offset
  *                 there
  * @param disorder the greatest distance, in offsets, of a record below the greatest offset at which it is still
  *                 told from its replay
  * @param onReplay "drop" or "mark": the treatment of replays
  * @param name     the name of the filter in the checkpoint and in the query's progress
  * @param forgetAfter a duration; an origin without a record for longer than this is forgotten
  * @param eventTime   the timestamp column that says when a record came; none: the time of its batch
  */
final case class ReplayOptions(
    metadata: Seq[String] = Seq("key"),
    order: Seq[String] = Seq("topic", "partition", "offset"),
    disorder: Int = 0,
    onReplay: String = "drop",
    name: String = ReplayOptions.Name,
    forgetAfter: Option[TimeSpan] = None,
    eventTime: Option[String] = None
) {
  import ReplayOptions._

  /** @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed */
  private[tailrace] def settings: ReplaySettings = {
    if (order.size < 2) throw arguments.invalid("order", order.mkString(", "), "two columns or more")
    eventTime.filter(_ => forgetAfter.isEmpty).foreach { column =>
      throw arguments.needs("event_time", column, "forget_after, for instance forget_after='30 days'")
    }
    ReplaySettings(
      arguments.name(name),
      arguments.number("disorder", disorder.toLong, least = 0, MostDisorder).toInt,
      arguments.choice("on_replay", onReplay, Policy.onReplay) == Policy.Mark,
      forgetAfter.map(arguments.millis("forget_after", _))
    )
  }
}

object ReplayOptions {

  private[tailrace] def of(document: CallDocument): ReplayOptions = ReplayOptions(
    metadata = document("metadata").texts,
    order = document("order").texts,
    disorder = document("disorder").int,
    onReplay = document("on_replay").text,
    name = document("name").text,
    forgetAfter = document.get("forget_after").map(_.duration),
    eventTime = document.get("event_time").map(_.text)
  )

  private[tailrace] val arguments = new Arguments("tailrace.filter_replays")
  private[replay] val Name = "replays"

  /** The most offsets of disorder. Each costs one bit for each origin. */
  private val MostDisorder = 4096L
}

/** Finds the columns that the arguments name, and checks what can be checked before a query runs.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class ReplayResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  import ReplayResolution._

  private val columns = new Columns(ReplayOptions.arguments, child.output, sameName)

  def resolve(options: ReplayOptions): LogicalPlan = {
    val settings = options.settings
    val metadata = options.metadata.zip(if (options.metadata.size == 1) OfKey else OfColumns).map {
      case (name, (argument, dataType)) => columns.find(argument, name, dataType)
    }
    val order = options.order.map(columns.find("order", _))
    order.find(a => !RowOrdering.isOrderable(a.dataType)).foreach { a =>
      throw columns.wrongType("order", a, "an orderable type")
    }
    val eventTime = options.eventTime.map(columns.find("event_time", _, TimestampType))
    if (settings.marksReplays) columns.checkAdded(Mark.Column, Columns.rename(Mark.Column))
    val mark = Option.when(settings.marksReplays)(Mark.attribute())
    OwnColumns.renewable(FilterReplays(metadata, order, eventTime, settings, mark, child))
  }
}

private object ReplayResolution {
  private val OfKey = Seq("key" -> BinaryType)
  private val OfColumns = Seq("pid" -> LongType, "partition" -> IntegerType, "offset" -> LongType)
}
