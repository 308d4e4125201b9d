package io.tailrace.windows

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.{QueryStart, SparkPlans, SparkSession, StreamingRun}
import org.apache.spark.sql.types._

import io.tailrace.common.OwnNames
import io.tailrace.driver.ReportExec
import io.tailrace.plan.{Columns, TailraceNode, WriteCheck}
import io.tailrace.watermark.{HostProgress, ProgressSettings}

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

/** Checks that the windows of a DataFrame can be landed, and plans their landing.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class WindowsResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  import WindowsResolution._

  private val columns = new Columns(WindowOptions.arguments, child.output, sameName)

  /** The DataFrame whose writer lands them: one of the format [[WindowSink.Format]]. */
  def landed(session: SparkSession, path: String, eventTime: String, options: WindowOptions): DataFrame = {
    if (!child.isStreaming) throw WindowErrors.batch()
    val landing = sources
    // Times without a zone have no watermark.
    columns.checkDistinct("frame")
    val time = checkWatermark(columns.find("event_time", eventTime, TimestampType))
    val cure = s"${Columns.rename(options.into)} The column of windows takes another name with `into`."
    columns.checkAdded(options.into, cure)
    if (path.trim.isEmpty) throw WindowOptions.arguments.invalid("path", "", "a folder")
    val folder = LandingPaths.qualified(path, session.sessionState.newHadoopConf())
    val settings = options.settings(folder.toString, landing)
    val start = Alias(WindowStart(time, settings.windows), Start)()
    val plan = LandWindows(settings, start.toAttribute, Project(child.output :+ start, child))
    SparkPlans.toFrame(session, plan)
  }

  /** Windows of an event time close by the watermark on that column. The watermark on another column says
    * nothing about them.
    */
  private def checkWatermark(time: Attribute): Attribute = {
    def hasWatermark(a: Attribute) = a.metadata.contains(EventTimeWatermark.delayKey)
    if (!hasWatermark(time))
      throw WindowErrors.watermarkMissing(time.name, child.output.find(hasWatermark).map(_.name))
    time
  }

  /** A DataFrame that is used twice is one source. */
  private def sources: Seq[ProgressSettings] = {
    val watermarks = child.collect { case w: EventTimeWatermark => w.nodeId }.toSet
    val accurate = child.collect { case p: HostProgress => p.nodeId -> p.settings }
    if (watermarks.isEmpty || watermarks != accurate.map(_._1).toSet) throw WindowErrors.source()
    accurate.map(_._2).distinctBy(_.name)
  }
}

private object WindowsResolution {

  /** The number of a row's window, by which Spark sorts rows into files. No file has this column. */
  private val Start = OwnNames.of("window")
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
