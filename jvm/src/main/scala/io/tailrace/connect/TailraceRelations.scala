package io.tailrace.connect

import java.lang.reflect.{InvocationTargetException, Method}
import java.util.Optional
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.connect.proto.{Expression, Relation}
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.connect.plugin.RelationPlugin
import org.apache.spark.sql.connect.service.{
  SessionHolder,
  SessionKey,
  SparkListenerConnectSessionClosed => SessionClosed
}
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession => ClassicSession}
import org.apache.spark.sql.types.StringType
import org.apache.spark.sql.{Column, DataFrame, Dataset, Row, SparkSession}
import org.apache.spark.{SparkContext, SparkEnv}
import org.sparkproject.connect.protobuf.{Any, ByteString, CodedInputStream, WireFormat}

import io.tailrace.api.PythonApi
import io.tailrace.common.Errors.refuse
import io.tailrace.common.{CallDocument, TailraceAnalysisException, TailraceConf}
import io.tailrace.testing.TestStreams

import com.fasterxml.jackson.databind.ObjectMapper

/** Tailrace's calls over Spark Connect. A call is a relation in the client's plan; the server plans it like the
  * same call of a classic session:
  *
  * {{{
  *   tailrace.join(left, right, ...)          client: Relation(extension = Call("join", JSON, [left, right]))
  *     -> TailraceRelations.transform         server: PendingCall("join", JSON) above the plans of left and right
  *     -> PendingCall.Resolve                         when these are resolved: the plan that PythonApi gives
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
    else Optional.of(plan(ConnectCall.parse(extension.getValue), planner))
  }

  private def plan(call: ConnectCall, planner: SparkConnectPlanner): LogicalPlan = {
    PythonApi.checkSession(planner.session)
    // One that is given twice is one child: labels of one stream read it once.
    val children = new mutable.LinkedHashMap[Relation, Int]
    val places = call.frames.map(relation => children.getOrElseUpdate(relation, children.size))
    val columns = call.columns.map(one => SparkPlans.column(planner.transformExpression(one)))
    val pending =
      PendingCall(call.name, call.json, places, columns, children.keys.toSeq.map(planner.transformRelation))
    def objects = objectsOfTests(planner)
    call.name match {
      case HeldObject =>
        val name = pending.read(planner.session)(_.apply("object").text)
        answer(objects(name), None, objects)
      case Invocation =>
        val (name, method, arguments) = pending.read(planner.session) { document =>
          (document("object").text, document("method").text, document("arguments").list.map(_.plain))
        }
        answer(objects.invoke(name, method, arguments), Some(name), objects)
      case name if PythonApi.plans(name) => pending
      case name if PythonApi.holds(name) => answer(pending.made(planner.session), None, objects)
      case _ => row(pending.made(planner.session).toString)
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

  /** The name by which a client knows an object of the server. */
  private val Name = "tailrace.object"

  private val json = new ObjectMapper

  /** @param objects by name: values without a JSON form */
  private def answer(of: AnyRef, owner: Option[String], objects: => ConnectObjects): LogicalPlan = of match {
    case frame: Dataset[_] => SparkPlans.analyzed(frame)
    case value => row(json.writeValueAsString(readable(value, objects.hold(_, owner))))
  }

  private def row(text: String): LogicalPlan = {
    val column = AttributeReference("answer", StringType, nullable = false)()
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

/** A call of Python's in the plan of a Spark Connect client.
  *
  * {{{
  *   message Call { string name = 1; string arguments = 3; repeated Relation frames = 4; repeated Expression columns = 5; }
  * }}}
  *
  * `python/tailrace/_bridge/connect.py` writes it. The number of a field never changes, and 2 isn't used again: it
  * held positional arguments.
  *
  * @param name of a call of [[io.tailrace.api.PythonApi]]
  * @param json its arguments, see [[io.tailrace.common.CallDocument]]
  */
private[connect] final case class ConnectCall(
    name: String,
    json: String,
    frames: Seq[Relation],
    columns: Seq[Expression]
)

private[connect] object ConnectCall {

  /** The name of the message, at the end of its type's address. */
  val TypeName = "tailrace.connect.Call"

  /** A field of a later version is skipped, as protobuf does. */
  def parse(bytes: ByteString): ConnectCall = {
    var (name, json) = ("", "")
    val frames = Seq.newBuilder[Relation]
    val columns = Seq.newBuilder[Expression]
    val in = bytes.newCodedInput()
    var tag = in.readTag()
    while (tag != 0) {
      WireFormat.getTagFieldNumber(tag) match {
        case 1 => name = in.readStringRequireUtf8()
        case 3 => json = in.readStringRequireUtf8()
        case 4 => frames += Relation.parseFrom(input(in.readBytes()))
        case 5 => columns += Expression.parseFrom(input(in.readBytes()))
        case _ => in.skipField(tag): Unit
      }
      tag = in.readTag()
    }
    ConnectCall(name, json, frames.result(), columns.result())
  }

  /** The server limits the depth of a plan: each step of a DataFrame is one or two levels. */
  private def input(bytes: ByteString): CodedInputStream = {
    val in = bytes.newCodedInput()
    in.setRecursionLimit(Option(SparkEnv.get).fold(MostLevels)(_.conf.getInt(LevelsKey, MostLevels)))
    in
  }

  private val LevelsKey = "spark.connect.grpc.marshallerRecursionLimit"
  private val MostLevels = 1024
}

/** Objects of the server that a client calls, by their names: the streams and queries of its tests. Each belongs to
  * the one that returned it. All are dropped with the first one's `close`, and with their session.
  *
  * {{{
  *   testStreams        -> 1
  *   invoke 1 query     -> 2, of 1
  *   invoke 2 rowsAfter -> 3, of 2
  *   invoke 1 close     1, 2 and 3 are dropped
  * }}}
  */
private[connect] final class ConnectObjects {
  import ConnectObjects._

  private val held = new ConcurrentHashMap[String, Held]
  private val last = new AtomicLong

  /** @return its name */
  def hold(value: AnyRef, owner: Option[String]): String = {
    val name = last.incrementAndGet().toString
    held.put(name, Held(value, owner))
    name
  }

  def apply(name: String): AnyRef = Option(held.get(name)) match {
    case Some(found) => found.value
    case None =>
      throw new NoSuchElementException(s"no object $name: it is closed, or the server has started anew")
  }

  /** Calls a method of an object. */
  def invoke(name: String, method: String, arguments: Seq[AnyRef]): AnyRef = {
    val value = apply(name)
    val found = value.getClass.getMethods.find { m =>
      m.getName == method && m.getParameterCount == arguments.size && isOfTests(m.getDeclaringClass)
    }
    def missing = new NoSuchMethodException(s"${value.getClass.getName}.$method, ${arguments.size} arguments")
    val result = called(value, found.getOrElse(throw missing), arguments)
    if (method == "close") drop(name)
    result
  }

  private def called(of: AnyRef, method: Method, arguments: Seq[AnyRef]): AnyRef = {
    val fitting = arguments.zip(method.getParameterTypes).map {
      case (number: java.lang.Long, kind) if kind == classOf[Int] => Int.box(Math.toIntExact(number))
      case (other, _) => other
    }
    try method.invoke(of, fitting: _*)
    catch { case e: InvocationTargetException => throw e.getCause }
  }

  private def drop(name: String): Unit = {
    held.remove(name)
    held.asScala.collect { case (other, Held(_, Some(`name`))) => other }.foreach(drop)
  }

  private def close(): Unit =
    held.values.asScala.map(_.value).foreach { case open: AutoCloseable => open.close(); case _ => }
}

private[connect] object ConnectObjects {
  private final case class Held(value: AnyRef, owner: Option[String])

  private val ofSessions = new ConcurrentHashMap[SessionKey, ConnectObjects]

  def of(session: SessionHolder): ConnectObjects = ofSessions.computeIfAbsent(
    session.key,
    key => {
      val context = session.session.sparkContext
      context.addSparkListener(new AtEnd(key, context))
      new ConnectObjects
    }
  )

  /** A client names the method. A method of `Object` would open all classes of the server to it by reflection. */
  private def isOfTests(declaring: Class[_]): Boolean =
    declaring.getPackageName == classOf[TestStreams].getPackageName

  /** A client that is killed doesn't close its streams. Spark closes its session, an hour after its last call. */
  private final class AtEnd(key: SessionKey, context: SparkContext) extends SparkListener {
    override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
      case closed: SessionClosed if SessionKey(closed.userId, closed.sessionId) == key =>
        context.removeSparkListener(this)
        Option(ofSessions.remove(key)).foreach(_.close())
      case _ =>
    }
  }
}

/** The errors of calls over Spark Connect. */
object ConnectErrors {

  def testingOff(): TailraceAnalysisException = refuse("TAILRACE_CONNECT_TESTING_OFF")
}

/** A call that returns a DataFrame, until the DataFrames among its arguments are resolved. Tables of a Declarative
  * Pipeline are known to the pipeline alone, which puts them into the plan before it is analyzed.
  *
  * {{{
  *   Call("join", JSON, [left, right])   ->   PendingCall("join", JSON, [0, 1], left, right)
  *     left and right are resolved       ->   the plan that PythonApi gives
  * }}}
  *
  * @param json   the arguments, see [[CallDocument]]
  * @param places of the call's DataFrames among the children
  */
private[tailrace] case class PendingCall(
    name: String,
    json: String,
    places: Seq[Int],
    columns: Seq[Column],
    children: Seq[LogicalPlan]
) extends LogicalPlan {
  override def output: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false

  /** The result of the call over its children. */
  def made(session: SparkSession): AnyRef =
    PythonApi.call(session, name, json, frames(session).asJava, columns.asJava)

  /** The arguments of a call that isn't one of [[PythonApi]]. */
  def read[T](session: SparkSession)(decoded: CallDocument => T): T =
    CallDocument.read(s"tailrace.$name", json, frames(session), columns)(decoded)

  private def frames(session: SparkSession): Seq[DataFrame] = {
    val made = children.map(SparkPlans.toFrame(session.asInstanceOf[ClassicSession], _))
    places.map(made)
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): PendingCall =
    copy(children = newChildren)
}

private[tailrace] object PendingCall {

  /** Plans the calls whose DataFrames are resolved. A call that occurs twice in the plan is one call, like a DataFrame
    * that a classic session uses twice: its name is taken once.
    */
  final case class Resolve(session: SparkSession) extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      val known = new mutable.HashMap[Long, LogicalPlan]
      plan.resolveOperatorsUp {
        case call: PendingCall if call.childrenResolved =>
          SparkPlans.clientNumber(call).fold(planned(call))(known.getOrElseUpdate(_, planned(call)))
      }
    }

    private def planned(call: PendingCall): LogicalPlan =
      SparkPlans.inPlaceOf(call, SparkPlans.analyzed(call.made(session).asInstanceOf[Dataset[_]]))
  }
}
