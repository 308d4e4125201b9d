package io.tailrace.plan

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan, Project}
import org.apache.spark.sql.connector.catalog.Table

/** A logical node of an operator of ours. It answers the questions of rules over a whole query, so that no rule lists operators. */
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

  /** The operator in a user's words, if it brings the rows of a source partition out of their order. */
  def reorders: Option[String] = None

  /** The reason why it can't be in the op of a recursion. */
  def refusedInRecursion: Option[Obstacle] = None

  /** Checks for the start of a query with this node. Each runs once, however many nodes have it. */
  def writeChecks: Seq[WriteCheck] = Nil
}

/** A join of two streams. Its result may be the argument of a recursion, which asks for the rows' times. */
trait StreamJoin extends BinaryNode with TailraceNode {

  /** The join in an error: "an inner tailrace.join". */
  def description: String

  /** Whether rows come out only when the watermark has passed them. */
  def holdsRows: Boolean

  /** The output columns that are event times of the right side, and the right columns that they come from. */
  def rightTimes: Seq[(Attribute, Attribute)]

  override def reorders: Option[String] = Some("a join of two streams")
}

/** @param operator as the user knows it
  * @param reason   why it is in the way
  */
final case class Obstacle(operator: String, reason: String)

object Obstacle {
  val Watermark: Obstacle =
    Obstacle("a watermark", "it would follow the rows that go round instead of the input's")
}

/** Lets a DataFrame with a node of ours be on both sides of a join. Spark then gives the columns of one side new ids, in
  * its own nodes only; a column that our node adds would have one id on both sides, and the join would not resolve. So
  * the columns come out through a projection, which Spark knows, and which its optimizer removes where it isn't needed.
  */
object OwnColumns {
  def renewable(plan: LogicalPlan): LogicalPlan = {
    val own = plan.producedAttributes
    if (own.isEmpty) plan
    else Project(plan.output.map(a => if (own.contains(a)) Alias(a, a.name)() else a), plan)
  }
}

/** A table of ours that reads what another one has: rules that know sources look at that one. */
trait WrapsTable extends Table {
  def source: Table
}
