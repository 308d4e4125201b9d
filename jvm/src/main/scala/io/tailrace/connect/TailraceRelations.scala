package io.tailrace.connect

import java.util.Optional

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.connect.proto.Relation
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.connect.plugin.RelationPlugin
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.StringType
import org.apache.spark.sql.{Dataset, Row}
import org.sparkproject.connect.protobuf.Any

import io.tailrace.api.PythonApi
import io.tailrace.common.TailraceConf

import com.fasterxml.jackson.databind.ObjectMapper

/** Tailrace's calls over Spark Connect. A call is a relation in the client's plan; the server plans it as the same
  * call of a classic session is planned:
  *
  * {{{
  *   tailrace.join(left, right, ...)          client: Relation(extension = Call("join", left, right, ...))
  *     -> TailraceRelations.transform         server: PendingCall("join", ...) above the plans of left and right
  *     -> PendingCall.Resolve                         when these are resolved: the plan that PythonApi.join gives
  *
  *   a call that gives a value                a row with it as JSON
  * }}}
  *
  * The server loads it by `spark.connect.extensions.relation.classes`.
  */
final class TailraceRelations extends RelationPlugin {
  import TailraceRelations._

  override def transform(bytes: Array[Byte], planner: SparkConnectPlanner): Optional[LogicalPlan] = {
    val extension = Any.parseFrom(bytes)
    if (!extension.getTypeUrl.endsWith(s"/${ConnectCall.TypeName}")) Optional.empty[LogicalPlan]
    else Optional.of(plan(ConnectCall.parse(extension.getValue, planner), planner))
  }

  private def plan(call: ConnectCall, planner: SparkConnectPlanner): LogicalPlan = {
    PythonApi.checkSession(planner.session)
    // One that is given twice is one child: labels of one stream read it once.
    val children = new mutable.LinkedHashMap[Relation, Int]
    def argument(of: AnyRef): AnyRef = of match {
      case relation: Relation =>
        PendingCall.Frame(children.getOrElseUpdate(relation, children.size))
      case list: java.util.List[_] => list.asScala.map(one => argument(one.asInstanceOf[AnyRef])).asJava
      case other => other
    }
    val arguments = call.arguments.map(argument)
    val plans = children.keys.toSeq.map(planner.transformRelation)
    def filled = {
      val frames = plans.map(SparkPlans.toFrame(planner.session, _))
      arguments.map(PendingCall.filled(_, planner.session, frames))
    }
    def objects = objectsOfTests(planner)
    (call.method, arguments) match {
      case (HeldObject, Seq(name: String)) => answer(objects(name), None, objects)
      case (Invocation, (name: String) +: (method: String) +: _) =>
        answer(objects.invoke(name, method, filled.drop(2)), Some(name), objects)
      case (method, _) if ConnectMethods.plans(method) => PendingCall(method, arguments, plans)
      case (method, _) => answer(ConnectMethods.value(method, filled), None, objects)
    }
  }

  /** Those of the client's session. A test moves the clock of all queries of the server, and lets their files fail. */
  private def objectsOfTests(planner: SparkConnectPlanner): ConnectObjects = {
    // Not the session's settings, which a client may set.
    val settings = planner.session.sparkContext.getConf
    if (!TailraceConf.ConnectTesting.read(settings.getOption)) throw ConnectErrors.testingOff()
    ConnectObjects.of(planner.sessionHolder)
  }
}

private[connect] object TailraceRelations {
  private val Invocation = "invoke"
  private val HeldObject = "held"

  /** What a client knows an object of the server by. */
  private val Name = "tailrace.object"

  private val json = new ObjectMapper

  /** @param objects by name: for what has no JSON */
  private def answer(of: AnyRef, owner: Option[String], objects: => ConnectObjects): LogicalPlan = of match {
    case frame: Dataset[_] => SparkPlans.analyzed(frame)
    case value =>
      val column = AttributeReference("answer", StringType, nullable = false)()
      val text = json.writeValueAsString(readable(value, objects.hold(_, owner)))
      LocalRelation.fromExternalRows(Seq(column), Seq(Row(text)))
  }

  private def readable(value: AnyRef, hold: AnyRef => String): AnyRef = value match {
    case null | _: String | _: java.lang.Number | _: java.lang.Boolean => value
    case list: java.util.List[_] => list.asScala.map(one => readable(one.asInstanceOf[AnyRef], hold)).asJava
    case map: java.util.Map[_, _] => map
    case _: scala.runtime.BoxedUnit => null
    case other => Map(Name -> hold(other)).asJava
  }
}
