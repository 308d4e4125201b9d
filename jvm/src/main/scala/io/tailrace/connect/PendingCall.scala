package io.tailrace.connect

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession => ClassicSession}
import org.apache.spark.sql.{DataFrame, SparkSession}

/** A call that gives a DataFrame, as long as those that it takes aren't resolved. Tables of a Declarative Pipeline are
  * known to the pipeline alone, which puts them into the plan before it is analyzed.
  *
  * {{{
  *   Call("join", left, right, ...)   ->   PendingCall("join", [Frame(0), Frame(1), ...], left, right)
  *     left and right are resolved    ->   the plan that PythonApi.join gives
  * }}}
  *
  * @param arguments of the call, with a [[PendingCall.Frame]] for each DataFrame
  */
private[tailrace] case class PendingCall(method: String, arguments: Seq[AnyRef], children: Seq[LogicalPlan])
    extends LogicalPlan {
  override def output: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): PendingCall =
    copy(children = newChildren)
}

private[tailrace] object PendingCall {

  /** A DataFrame among the arguments: the child of this number. */
  final case class Frame(child: Int)

  /** The session of the call, as an argument. */
  case object Session

  /** Puts session and DataFrames into arguments. */
  def filled(argument: AnyRef, session: SparkSession, frames: Int => DataFrame): AnyRef = argument match {
    case Frame(child) => frames(child)
    case Session => session
    case list: java.util.List[_] =>
      list.asScala.map(one => filled(one.asInstanceOf[AnyRef], session, frames)).asJava
    case other => other
  }

  /** Plans the calls whose DataFrames are resolved. One that the plan has twice is one, as a DataFrame of a classic
    * session is that is used twice: its name is taken once.
    */
  final case class Resolve(session: SparkSession) extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      val known = new mutable.HashMap[Long, LogicalPlan]
      plan.resolveOperatorsUp {
        case call: PendingCall if call.childrenResolved =>
          SparkPlans.clientNumber(call).fold(planned(call))(known.getOrElseUpdate(_, planned(call)))
      }
    }

    private def planned(call: PendingCall): LogicalPlan = {
      val frames = call.children.map(SparkPlans.toFrame(session.asInstanceOf[ClassicSession], _))
      SparkPlans.inPlaceOf(
        call,
        ConnectMethods.plan(call.method, call.arguments.map(filled(_, session, frames)))
      )
    }
  }
}
