package io.tailrace.windows

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

import io.tailrace.plan.{TailraceNode, WriteCheck}

/** `tailrace.write_windows`, resolved: what its sink writes.
  *
  * @param path  the folder
  * @param start the child's last column, with the start of a row's window in microseconds
  */
case class LandWindows(path: String, start: Attribute, child: LogicalPlan)
    extends UnaryNode
    with TailraceNode {
  override def operator: String = "tailrace.write_windows"
  override def onlyAppends: Boolean = true
  override def writeChecks: Seq[WriteCheck] = Seq(LandWindows.SinkCheck)

  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): LandWindows = copy(child = newChild)
}

object LandWindows {

  /** Another sink would get the rows, and no window would be landed. */
  private object SinkCheck extends WriteCheck {
    override def apply(write: WriteToStreamStatement): Unit =
      if (!write.sink.isInstanceOf[WindowSink]) {
        write.inputQuery.collectFirst { case lands: LandWindows => lands.path }.foreach { folder =>
          val sink = write.sink match {
            case old: Sink => old.toString // it has no name
            case table => table.name
          }
          throw WindowErrors.sink(folder, sink)
        }
      }
  }
}

object LandWindowsStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case l: LandWindows =>
      new LandWindowsExec(LandWindowsExec.Name, Seq(l.start), planLater(l.child))(l.path) :: Nil
    case _ => Nil
  }
}
