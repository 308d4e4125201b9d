package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.tailrace.QueryStart

import io.tailrace.checkpoint.RepartitionTurn
import io.tailrace.plan.{StreamJoin, WriteCheck}

/** The logical node of a join, as the user wrote it, resolved.
  *
  * The columns are parameters of each node and not one [[JoinColumns]]: where a query uses the same rows
  * twice, Spark gives columns new ids, and looks for them among the parameters only.
  */
trait JoinNode extends StreamJoin {
  def leftKeys: Seq[Attribute]
  def rightKeys: Seq[Attribute]
  def leftTime: Attribute
  def rightTime: Attribute

  /** The right columns that are emitted beside the left ones, with new ids: the sides may share ids. */
  def paired: Seq[Attribute]

  /** The columns that the join adds. */
  def added: Seq[Attribute]

  /** True if right rows are emitted by themselves, with nulls for the left columns. */
  def rightComesOutAlone: Boolean

  override def onlyAppends: Boolean = true

  override def writeChecks: Seq[WriteCheck] = Seq(OwnWatermark(operator), TurnAtStart, NamedSources)

  override def output: Seq[Attribute] = {
    val needed = AttributeSet(leftKeys :+ leftTime)
    val one = OneEventTime.of(columns.left, leftTime).map { a =>
      if (isStreaming && !needed.contains(a)) OneEventTime.lacking(a) else a
    }
    (if (rightComesOutAlone) one.map(_.withNullability(true)) else one) ++ paired ++ added
  }

  def columns: JoinColumns =
    JoinColumns(left.output, right.output, leftKeys, rightKeys, leftTime, rightTime, added)

  // All columns of both sides are emitted. Spark's optimizer prunes those that no node names.
  @transient override lazy val references: AttributeSet = left.outputSet ++ right.outputSet

  override def producedAttributes: AttributeSet = AttributeSet(paired ++ added)
}

/** A join whose state can be made of rows: see `exchange`. */
trait ImportableJoin extends JoinNode {

  /** As a stream of it has them: [[StoredJoin.pinned]]. */
  def pinned(columns: JoinColumns): PinnedSettings

  /** True if left rows that were emitted may be amended. */
  def amends: Boolean

  /** As a stream of it has them: [[StoredJoin.keptColumns]]. */
  def keptColumns: Option[Set[String]] = None

  /** The same join for the one micro-batch of an import, which takes rows as they are and emits none.
    *
    * @param left  has the columns of the left side, and then a BOOLEAN: true if the row was emitted, and is there to be
    *              amended
    * @param right has the columns of the right side, and then a BIGINT: the version of the state in which the
    *              row counts as late; null for a row that wasn't late
    */
  def importing(left: LogicalPlan, right: LogicalPlan): ImportableJoin
}

/** Refuses the setting with which Spark gives all stateful operators of a query one watermark. A join emits rows behind
  * the watermark of its input, and tells Spark a watermark for them. Without it, an operator downstream of the join drops them.
  */
private[join] final case class OwnWatermark(operator: String) extends WriteCheck {
  override def apply(start: QueryStart): Unit =
    if (!start.hasWatermarkPerOperator) throw JoinErrors.watermarkShared(operator)
}

/** Completes a rescaling that has died after its turn. A query looks before Spark reads its logs: later, it would be too
  * late for the number of partitions.
  */
private[tailrace] object TurnAtStart extends WriteCheck {
  override def apply(start: QueryStart): Unit =
    start.checkpoint.foreach(RepartitionTurn.finish(_, start.hadoopConf))
}
