package io.tailrace.windows

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.StreamingRun

import io.tailrace.driver.ReportExec
import io.tailrace.plan.{TailraceNode, WriteCheck}

/** `tailrace.write_windows`, resolved: what its sink writes.
  *
  * @param start the child's last column, with the start of a row's window in microseconds
  */
case class LandWindows(settings: LandingSettings, start: Attribute, child: LogicalPlan)
    extends UnaryNode
    with TailraceNode {
  override def operator: String = "tailrace.write_windows"
  override def onlyAppends: Boolean = true
  override def writeChecks: Seq[WriteCheck] = Seq(LandWindows.SinkCheck)

  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): LandWindows = copy(child = newChild)
}

object LandWindows {

  /** Opens the folder. Another sink would get the rows, and no window would be landed. */
  private object SinkCheck extends WriteCheck {
    override def apply(write: WriteToStreamStatement): Unit =
      write.inputQuery.collectFirst { case lands: LandWindows => lands.settings }.foreach { settings =>
        write.sink match {
          case ours: WindowSink => ours.open(settings)
          case old: Sink => throw WindowErrors.sink(settings.path, old.toString) // it has no name
          case table => throw WindowErrors.sink(settings.path, table.name)
        }
      }
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
