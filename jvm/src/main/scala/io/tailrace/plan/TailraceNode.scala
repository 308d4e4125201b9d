package io.tailrace.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan}
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement

import io.tailrace.common.Errors

/** A logical node of an operator of ours. It answers what rules over a whole query ask, so that no rule lists operators. */
trait TailraceNode extends LogicalPlan {

  /** The operator, as a user calls it: `tailrace.join`. */
  def operator: String

  /** Whether its rows come out once and are never revised, so that the output mode has to be append. */
  def onlyAppends: Boolean = false

  /** Whether it keeps something of each micro-batch in the checkpoint, so that a batch that runs again has to be the same. */
  def keepsBatches: Boolean = true

  /** Whether an input row may come out as no row. */
  def dropsRows: Boolean = true

  /** Whether each task gives the rows of its input, in their order. */
  def keepsTasks: Boolean = false

  /** What it is, in a user's words, if it brings the rows of a source partition out of their order. */
  def reorders: Option[String] = None

  /** Why it can't be in the op of a recursion; none: it can. */
  def refusedInRecursion: Option[Obstacle] = None

  /** What is checked when a query with this node is started: each check once, however many nodes have it. */
  def writeChecks: Seq[WriteCheck] = Nil
}

/** A join of two streams. Its result may be the argument of a recursion, which asks for the rows' times. */
trait StreamJoin extends BinaryNode with TailraceNode {

  /** What it is called in an error: "an inner tailrace.join". */
  def description: String

  /** Whether rows come out only when the watermark has passed them. */
  def holdsRows: Boolean

  /** The output columns that are event times of the right side, and the right columns that they come from. */
  def rightTimes: Seq[(Attribute, Attribute)]

  override def reorders: Option[String] = Some("a join of two streams")
}

/** Refuses a streaming query when it is started, in the caller's thread. */
trait WriteCheck {

  /** @throws io.tailrace.common.TailraceAnalysisException if the query can't be run */
  def apply(write: WriteToStreamStatement): Unit
}

object WriteCheck {

  /** Refuses two operators of one name: they would write into one directory of the checkpoint. */
  def unique(call: String, names: Seq[String]): Unit =
    names.diff(names.distinct).headOption.foreach(name => throw Errors.nameExists(call, name))
}

/** @param operator as the user knows it
  * @param reason   why it is in the way
  */
final case class Obstacle(operator: String, reason: String)

object Obstacle {
  val Watermark: Obstacle =
    Obstacle("a watermark", "it would follow the rows that go round instead of the input's")
}
