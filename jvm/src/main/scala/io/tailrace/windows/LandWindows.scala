package io.tailrace.windows

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.{QueryStart, SparkSession, StreamingRun}
import org.apache.spark.sql.types._

import io.tailrace.driver.ReportExec
import io.tailrace.plan.{TailraceNode, WriteCheck}

/** The logical node of `tailrace.write_windows`, below the sink.
  *
  * @param start the child's last column: the start of a row's window, in microseconds
  */
case class LandWindows(settings: LandingSettings, start: Attribute, child: LogicalPlan)
    extends UnaryNode
    with TailraceNode {
  override def operator: String = "tailrace.write_windows"
  override def onlyAppends: Boolean = true

  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): LandWindows = copy(child = newChild)
}

/** Opens the folder when the query starts. The node and the sink need each other: rows that another sink gets
  * land in no window, and the sink without the node has no settings.
  */
object LandWindowsCheck extends WriteCheck {
  override def apply(start: QueryStart): Unit =
    (start.plan.collectFirst { case lands: LandWindows => lands.settings }, start.sink) match {
      case (Some(settings), ours: WindowSink) => ours.open(settings)
      case (Some(settings), _) => throw WindowErrors.sink(settings.path, start.sinkName)
      case (None, _: WindowSink) => throw WindowSink.usedByItself
      case _ =>
    }
}

object LandWindowsStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case l: LandWindows =>
      ReportExec(LandingReport.Name, planLater(l.child)) { case node => report(node.session).row } :: Nil
    case _ => Nil
  }

  private def report(session: SparkSession): LandingReport = StreamingRun.current(session).sink match {
    case sink: WindowSink => sink.report
    case other => throw new IllegalStateException(s"windows are landed by another sink: $other")
  }
}

/** The numbers of the last batch, for the query's progress. Times are microseconds.
  *
  * @param rows    the number of rows, with late rows and rows without an event time
  * @param open    the number of open windows that have rows
  * @param through all windows that end at this time or before are closed
  * @param low     the low watermark that closes windows
  */
final case class LandingReport(
    rows: Long = 0,
    late: Long = 0,
    untimed: Long = 0,
    open: Long = 0,
    through: Option[Long] = None,
    low: Option[Long] = None
) {
  def row: Row = new GenericRowWithSchema(
    Array(rows, late, untimed, open, timestamp(through), timestamp(low)),
    LandingReport.Schema
  )

  private def timestamp(micros: Option[Long]) = micros.map(DateTimeUtils.toJavaTimestamp).orNull
}

object LandingReport {

  /** The name in the query's progress. */
  val Name = "tailrace.windows"

  private[tailrace] val Schema = new StructType()
    .add("rows", LongType)
    .add("lateRows", LongType)
    .add("untimedRows", LongType)
    .add("openWindows", LongType)
    .add("closedThrough", TimestampType)
    .add("lowWatermark", TimestampType)
}

/** The start of a timestamp's window, in microseconds. Null for null and for times without a window. */
case class WindowStart(child: Expression, windows: Windows) extends UnaryExpression {
  override def dataType: DataType = LongType
  override def prettyName: String = "window_start"
  override def nullable: Boolean = true
  override def nullIntolerant: Boolean = true

  override protected def nullSafeEval(time: Any): Any = {
    val micros = time.asInstanceOf[Long]
    if (windows.lands(micros)) windows.start(micros) else null
  }

  override protected def doGenCode(context: CodegenContext, ev: ExprCode): ExprCode = {
    val of = context.addReferenceObj("windows", windows)
    val (start, isNull) = (ev.value, ev.isNull)
    nullSafeCodeGen(context, ev, t => s"if ($of.lands($t)) $start = $of.start($t); else $isNull = true;")
  }

  override protected def withNewChildInternal(newChild: Expression): WindowStart = copy(child = newChild)
}
