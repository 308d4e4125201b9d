package io.tailrace.recursion

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, CurrentTimestamp, Expression}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.QueryStart
import org.apache.spark.sql.types.StructType

import io.tailrace.driver.DriverWatermarkExec
import io.tailrace.plan.{TailraceNode, WriteCheck}

/** `tailrace.recursively`, resolved. */
sealed trait Recursion extends UnaryNode with TailraceNode {
  override def operator: String = "tailrace.recursively"
  // The source of a recursion's log has some.
  override def keepsBatches: Boolean = false
  override def reorders: Option[String] = Some("a recursion")
  override def writeChecks: Seq[WriteCheck] = Seq(RecursionWriteCheck)

  def settings: RecursionSettings
}

/** `tailrace.recursively`, resolved, where all hops are made in the micro-batch that brought the row. See
  * [[FixpointExec]].
  *
  * @param argument which leaves of `body` stand for op's argument
  * @param body     op's plan. Not a child: the rules of the query's plan have no business in it
  * @param clock    the query's time, for op: by the rules that make literals of it wherever it stands in the query's plan
  * @param sizes    of op's tables, as far as they have been measured
  */
case class Fixpoint(
    argument: Long,
    body: LogicalPlan,
    settings: RecursionSettings,
    columns: RoundColumns,
    results: Seq[Attribute],
    child: LogicalPlan,
    clock: Expression = CurrentTimestamp(),
    sizes: TableSizes = new TableSizes
) extends Recursion
    with SupportsNonDeterministicExpression {

  // A micro-batch's time is one, until it is made a literal.
  override def allowNonDeterministicExpression: Boolean = true

  override def output: Seq[Attribute] = results
  override def producedAttributes: AttributeSet = AttributeSet(results)
  override def innerChildren: Seq[QueryPlan[_]] = Seq(body)

  // Each row of the input is op's argument with all its columns.
  @transient override lazy val references: AttributeSet = AttributeSet(child.output)

  override protected def withNewChildInternal(newChild: LogicalPlan): Fixpoint = copy(child = newChild)
}

/** `tailrace.recursively`, resolved, where each hop takes a micro-batch: the place where op's results are written, to be read
  * as rows of [[FeedbackRows]] in the next one. See [[FeedbackTapExec]].
  */
case class FeedbackTap(
    settings: RecursionSettings,
    columns: RoundColumns,
    times: Seq[Int],
    written: StructType,
    child: LogicalPlan
) extends Recursion {
  override def output: Seq[Attribute] = child.output

  // What goes round must not be pruned because nobody behind this needs it.
  @transient override lazy val references: AttributeSet = AttributeSet(child.output)

  override protected def withNewChildInternal(newChild: LogicalPlan): FeedbackTap = copy(child = newChild)
}

/** The rows that come round. A watermark node of Spark's stands above it, with the same `nodeId`, where they have an event
  * time: it holds the watermark.
  */
case class FeedbackRows(nodeId: UUID, recursion: String, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  @transient override lazy val references: AttributeSet = AttributeSet(child.output)

  override protected def withNewChildInternal(newChild: LogicalPlan): FeedbackRows = copy(child = newChild)
}

/** Keeps no state: a stream under AQE plans the same nodes again and again. */
final class RecursionStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case f: Fixpoint =>
      val exec = FixpointExec(
        f.argument,
        f.body,
        f.settings,
        f.columns,
        f.results,
        f.clock,
        f.sizes,
        f.isStreaming,
        planLater(f.child)
      )
      exec.reporting :: Nil
    case t: FeedbackTap =>
      FeedbackTapExec(t.settings, t.columns, t.times, t.written, planLater(t.child)).reporting :: Nil
    case EventTimeWatermark(id, eventTime, delay, child) =>
      child
        .collectFirst { case rows: FeedbackRows if rows.nodeId == id => rows }
        .map { rows =>
          val watermark = RecursionWatermark(rows.recursion)
          DriverWatermarkExec(session, id, eventTime, delay, planLater(child), watermark)
        }
        .toSeq
    case rows: FeedbackRows => planLater(rows.child) :: Nil
    case rows: ArgumentRows => ArgumentRowsExec(rows.output, rows.rows) :: Nil
    case union: NarrowUnion => NarrowUnionExec(union.output, union.children.map(planLater)) :: Nil
    case _: RecursionArgument => throw RecursionErrors.argumentOutside()
    case _ => Nil
  }
}

object RecursionStrategy extends (org.apache.spark.sql.SparkSession => SparkStrategy) {
  override def apply(session: org.apache.spark.sql.SparkSession): SparkStrategy =
    new RecursionStrategy(session.asInstanceOf[SparkSession])
}

/** Refuses a recursion that can't work in the streaming query that is being started. */
private[recursion] object RecursionWriteCheck extends WriteCheck {
  override def apply(start: QueryStart): Unit = {
    val recursions = start.plan.collect { case r: Recursion => r }
    // A frame that is used twice is one recursion.
    val names = recursions.distinct.map(_.settings.name)
    WriteCheck.unique("tailrace.recursively", names)
    recursions.foreach { recursion =>
      if (!start.appends && aggregates(recursion)) {
        throw RecursionErrors.revisions(recursion.settings.name, start.outputMode.toLowerCase)
      }
    }
    recursions.foreach {
      case tap: FeedbackTap if tap.times.nonEmpty && start.followsLatestWatermark =>
        throw RecursionErrors.watermarkPolicy(tap.settings.name)
      case _ =>
    }
    start.checkpoint.foreach { location =>
      val names = recursions.collect { case tap: FeedbackTap => tap.settings.name }.distinct
      FeedbackLog.check(location, start.hadoopConf, names)
    }
  }

  private def aggregates(recursion: Recursion): Boolean = recursion.exists {
    case aggregate: Aggregate => aggregate.isStreaming
    case distinct: Distinct => distinct.isStreaming
    case _ => false
  }
}
