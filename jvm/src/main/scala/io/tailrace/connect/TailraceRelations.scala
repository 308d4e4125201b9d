package io.tailrace.connect

import java.lang.invoke.MethodType
import java.lang.reflect.{InvocationTargetException, Method}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong
import java.util.{ArrayList, LinkedHashMap, Optional}

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
import org.apache.spark.sql.{DataFrame, Dataset, Row, SparkSession}
import org.apache.spark.{SparkContext, SparkEnv}
import org.sparkproject.connect.protobuf.{Any, ByteString, CodedInputStream, WireFormat}

import io.tailrace.api.PythonApi
import io.tailrace.common.Errors.refuse
import io.tailrace.common.{TailraceAnalysisException, TailraceConf}
import io.tailrace.testing.TestStreams

import com.fasterxml.jackson.databind.ObjectMapper

/** Tailrace's calls over Spark Connect. A call is a relation in the client's plan; the server plans it like the
  * same call of a classic session:
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

  /** The name by which a client knows an object of the server. */
  private val Name = "tailrace.object"

  private val json = new ObjectMapper

  /** @param objects by name: values without a JSON form */
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

/** A call of Python's in the plan of a Spark Connect client.
  *
  * {{{
  *   message Call   { string method = 1; repeated Value arguments = 2; }
  *   message Value  { oneof kind { bool session = 1; string text = 2; bytes binary = 3; Relation frame = 4;
  *                                 Expression column = 5; Values list = 6; Values map = 7;
  *                                 int64 number = 8; } }
  *   message Values { repeated Value items = 1; }     of a map: keys and values in turn; none of a oneof: null
  * }}}
  *
  * `python/tailrace/_bridge/connect_call.py` writes it. The number of a field never changes.
  *
  * @param method    of [[io.tailrace.api.PythonApi]]
  * @param arguments as py4j would pass them, but for DataFrames: these have yet to be planned
  */
private[connect] final case class ConnectCall(method: String, arguments: Seq[AnyRef])

private[connect] object ConnectCall {

  /** The name of the message, at the end of its type's address. */
  val TypeName = "tailrace.connect.Call"

  def parse(bytes: ByteString, planner: SparkConnectPlanner): ConnectCall = {
    var method = ""
    val arguments = Seq.newBuilder[AnyRef]
    foreachField(bytes) {
      case (1, in) => method = in.readStringRequireUtf8()
      case (2, in) => arguments += value(in.readBytes(), planner, depth = 0)
    }
    ConnectCall(method, arguments.result())
  }

  /** @param depth the number of lists around it */
  private def value(bytes: ByteString, planner: SparkConnectPlanner, depth: Int): AnyRef = {
    if (depth > MostNested) throw ConnectErrors.callUnknown(s"more than $MostNested lists in each other")
    var found: AnyRef = null
    foreachField(bytes) {
      case (1, in) =>
        in.readBool(): Unit
        found = PendingCall.Session
      case (2, in) => found = in.readStringRequireUtf8()
      case (3, in) => found = in.readByteArray()
      case (4, in) => found = Relation.parseFrom(input(in.readBytes()))
      case (5, in) =>
        found = SparkPlans.column(planner.transformExpression(Expression.parseFrom(input(in.readBytes()))))
      case (6, in) => found = new ArrayList(values(in.readBytes(), planner, depth).asJava)
      case (7, in) =>
        val map = new LinkedHashMap[AnyRef, AnyRef]
        values(in.readBytes(), planner, depth).grouped(2).foreach {
          case Seq(key, value) => map.put(key, value)
          case _ => throw ConnectErrors.callUnknown("a map with a key that has no value")
        }
        found = map
      case (8, in) => found = Long.box(in.readInt64())
    }
    found
  }

  private def values(bytes: ByteString, planner: SparkConnectPlanner, depth: Int): Seq[AnyRef] = {
    val items = Seq.newBuilder[AnyRef]
    foreachField(bytes) { case (1, in) => items += value(in.readBytes(), planner, depth + 1) }
    items.result()
  }

  /** The server limits the depth of a plan: each step of a DataFrame is one or two levels. */
  private def input(bytes: ByteString): CodedInputStream = {
    val in = bytes.newCodedInput()
    in.setRecursionLimit(Option(SparkEnv.get).fold(MostLevels)(_.conf.getInt(LevelsKey, MostLevels)))
    in
  }

  /** No call of Python's has more than three. Far more would overflow the stack. */
  private val MostNested = 16
  private val LevelsKey = "spark.connect.grpc.marshallerRecursionLimit"
  private val MostLevels = 1024

  /** A field of a later version is skipped, as protobuf does. */
  private def foreachField(bytes: ByteString)(read: PartialFunction[(Int, CodedInputStream), Unit]): Unit = {
    val in = bytes.newCodedInput()
    var tag = in.readTag()
    while (tag != 0) {
      read.applyOrElse(
        (WireFormat.getTagFieldNumber(tag), in),
        (_: (Int, CodedInputStream)) => in.skipField(tag): Unit
      )
      tag = in.readTag()
    }
  }
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
    val result = ConnectMethods.invoke(value, found.getOrElse(throw missing), arguments)
    if (method == "close") drop(name)
    result
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

  /** @param call the client's call, which this server doesn't have */
  def callUnknown(call: String): TailraceAnalysisException =
    refuse("TAILRACE_CONNECT_CALL_UNKNOWN", "call" -> call)

  def testingOff(): TailraceAnalysisException = refuse("TAILRACE_CONNECT_TESTING_OFF")
}

/** The methods that a client may call: those of [[PythonApi]]. */
private[connect] object ConnectMethods {
  private val methods: Map[String, Method] = PythonApi.getClass.getMethods.toSeq
    // Scala's own have a $ in their names.
    .filter(method => method.getDeclaringClass != classOf[Object] && !method.getName.contains('$'))
    .map(method => method.getName -> method)
    .toMap

  /** True if it returns a DataFrame. */
  def plans(method: String): Boolean = classOf[Dataset[_]].isAssignableFrom(found(method).getReturnType)

  /** An unknown method is that of a later client. */
  private def found(method: String): Method =
    methods.getOrElse(method, throw ConnectErrors.callUnknown(method))

  def plan(method: String, arguments: Seq[AnyRef]): LogicalPlan =
    SparkPlans.analyzed(value(method, arguments).asInstanceOf[Dataset[_]])

  def value(method: String, arguments: Seq[AnyRef]): AnyRef = invoke(PythonApi, found(method), arguments)

  /** Calls a method of an object. Whole numbers are converted to the types of its parameters. */
  def invoke(of: AnyRef, method: Method, arguments: Seq[AnyRef]): AnyRef = {
    if (arguments.size != method.getParameterCount)
      throw ConnectErrors.callUnknown(s"${method.getName} with ${arguments.size} arguments")
    val fitting = arguments.zip(method.getParameterTypes).zipWithIndex.map { case ((argument, kind), i) =>
      fitted(argument, kind).getOrElse {
        val found = if (argument == null) "null" else argument.getClass.getSimpleName
        throw ConnectErrors.callUnknown(
          s"${method.getName} with $found as argument ${i + 1}, which is ${kind.getSimpleName}"
        )
      }
    }
    try method.invoke(of, fitting: _*)
    catch { case e: InvocationTargetException => throw e.getCause }
  }

  /** An argument as a method accepts it; none if it doesn't. A client of another version may send such arguments. */
  private def fitted(argument: AnyRef, kind: Class[_]): Option[AnyRef] = argument match {
    case null => Option.when(!kind.isPrimitive)(null)
    case number: java.lang.Long if kind == classOf[Int] =>
      Option.when(number.toLong.isValidInt)(Int.box(number.intValue))
    case other => Option.when(MethodType.methodType(kind).wrap.returnType.isInstance(other))(other)
  }
}

/** A call that returns a DataFrame, until the DataFrames among its arguments are resolved. Tables of a Declarative
  * Pipeline are known to the pipeline alone, which puts them into the plan before it is analyzed.
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

    private def planned(call: PendingCall): LogicalPlan = {
      val frames = call.children.map(SparkPlans.toFrame(session.asInstanceOf[ClassicSession], _))
      SparkPlans.inPlaceOf(
        call,
        ConnectMethods.plan(call.method, call.arguments.map(filled(_, session, frames)))
      )
    }
  }
}
