package io.tailrace.connect

import java.util.{ArrayList, LinkedHashMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkEnv
import org.apache.spark.connect.proto.{Expression, Relation}
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.tailrace.SparkPlans
import org.sparkproject.connect.protobuf.{ByteString, CodedInputStream, WireFormat}

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

  /** @param depth in how many lists it is */
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

  /** A plan is as deep as the server takes one: each step of a DataFrame is a level or two. */
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
