package io.tailrace.plan

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.{QueryStart, SparkPlans, SparkSession, StreamingRun}

import io.tailrace.common.{Errors, ModeErrors, TailraceConf}

/** A logical node of a Tailrace operator. Rules over a whole query use its methods: no rule lists operators.
  */
trait TailraceNode extends LogicalPlan {

  /** The call that a user made: `tailrace.join`. */
  def operator: String

  /** True if its rows are final, so that the output mode has to be append. */
  def onlyAppends: Boolean = false

  /** True if rows are emitted as they are, and it keeps nothing of them. */
  def onlyLooks: Boolean = false

  /** True if it keeps something of each micro-batch: a batch that runs again then has to be the same. */
  def keepsBatches: Boolean = !onlyLooks

  /** True if an input row may be emitted as no row. */
  def dropsRows: Boolean = !onlyLooks

  /** True if each task returns the rows of its input, in their order. */
  def keepsTasks: Boolean = false

  /** A user's words for the operator, if it changes the order of a source partition's rows. */
  def reorders: Option[String] = None

  /** The reason why it can't be in the op of a recursion. */
  def refusedInRecursion: Option[Obstacle] = None

  /** After how much idle time of the query it flushes the rows that it holds; none: never, or it holds none. */
  def idleTimeoutMs: Option[Long] = None

  /** Checks for the start of a query with this node. Each runs once, also if several nodes have it. */
  def writeChecks: Seq[WriteCheck] = Nil
}

/** A join of two streams. A recursion over its result asks for the rows' event times. */
trait StreamJoin extends BinaryNode with TailraceNode {

  /** The join in an error: "an inner tailrace.join". */
  def description: String

  /** True if rows are emitted only when the watermark has reached them. */
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

/** Allows a DataFrame with a Tailrace node on both sides of a join. Spark gives the columns of one side new
  * ids, but only in its own nodes. A column that our node adds would have one id on both sides, and the join
  * would not resolve. So a projection above the node renames the columns. Spark's optimizer removes it where
  * it isn't needed.
  */
object OwnColumns {
  def renewable(plan: LogicalPlan): LogicalPlan = {
    val own = plan.producedAttributes
    if (own.isEmpty) plan
    else Project(plan.output.map(a => if (own.contains(a)) Alias(a, a.name)() else a), plan)
  }
}

/** A Tailrace table that reads another one. Rules that look for a kind of source look at that one. */
trait WrapsTable extends Table {
  def source: Table
}

/** A source of a query that has no files in the directory of the checkpoint that Spark numbers. */
trait UnnumberedSource extends Table

/** Refuses a streaming query when it is started, in the caller's thread. */
trait WriteCheck {

  /** @throws io.tailrace.common.TailraceAnalysisException if the query can't be run */
  def apply(start: QueryStart): Unit
}

object WriteCheck {

  /** Refuses two operators of one name: they would write into one directory of the checkpoint.
    *
    * @param call the call that makes the operators
    * @param name the name of a node if it is such an operator
    */
  def uniqueNames(call: String)(name: PartialFunction[LogicalPlan, String]): WriteCheck =
    start => unique(call, start.plan.collect(name))

  def unique(call: String, names: Seq[String]): Unit =
    names.diff(names.distinct).headOption.foreach(name => throw Errors.nameExists(call, name))
}

/** Runs the checks of the query's nodes when the query is started. It is a hint rule, because those come
  * first: Spark's own resolution removes the statement that has output mode and trigger.
  *
  * @param ofAll checks of all queries, also of those without an operator of ours
  */
final class StreamingWriteCheck(ofAll: Seq[WriteCheck]) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case QueryStart(start) =>
        val nodes = start.plan.collect { case node: TailraceNode => node }
        if (nodes.nonEmpty) {
          checkModes(start, nodes)
          TailraceConf.check(SparkPlans.activeSetting)
        }
        (nodes.flatMap(_.writeChecks).distinct ++ ofAll).foreach(_(start))
      case _ =>
    }
    plan
  }

  /** Refuses triggers and output modes that an operator can't run with. Without a node that only appends,
    * Spark decides: a count after `accurate_watermark` may have any output mode.
    */
  private def checkModes(start: QueryStart, nodes: Seq[TailraceNode]): Unit = {
    if (start.isRealTime) throw ModeErrors.realTime(nodes.head.operator)
    if (start.isContinuous) throw ModeErrors.continuous(nodes.head.operator)
    if (!start.appends)
      nodes.find(_.onlyAppends).foreach(node => throw ModeErrors.output(node.operator, start.outputMode))
  }
}

/** Refuses Spark's asynchronous progress tracking where an operator keeps something of each micro-batch: a
  * restart may cut the same data into other batches. The tracking is an option of the writer, which
  * [[QueryStart]] doesn't have. So the check comes when the first batch is planned, before it has rows.
  */
object AsyncProgressCheck extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    plan match {
      case node: TailraceNode
          if node.isStreaming && node.keepsBatches && StreamingRun.isAsynchronous(SparkSession.active) =>
        throw ModeErrors.asyncProgress(node.operator)
      case _ =>
    }
    Nil
  }
}
