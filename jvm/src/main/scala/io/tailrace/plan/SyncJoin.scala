package io.tailrace.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.types.MetadataBuilder

import io.tailrace.join.JoinColumns
import io.tailrace.sync.{Duplicates, SyncJoinExec, SyncSettings}

/** `tailrace.sync_join` as the user wrote it, resolved: above a [[SyncProgress]] on each side.
  *
  * @param added the flag of duplicates, if they are diverted
  */
case class SyncJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    leftTime: Attribute,
    rightTime: Attribute,
    settings: SyncSettings,
    added: Seq[Attribute]
) extends BinaryNode {

  override def output: Seq[Attribute] = {
    // Right rows that come out by themselves have nulls on the left.
    val alone = settings.emitUnmatchedRight || settings.duplicates == Duplicates.Divert
    (if (alone) columns.left.map(_.withNullability(true)) else columns.left) ++
      columns.payload.map(a => SyncJoin.untimed(a).withNullability(true)) ++ added
  }

  def columns: JoinColumns =
    JoinColumns(left.output, right.output, leftKeys, rightKeys, leftTime, rightTime, added)

  // All columns of both sides come out; no expression of this node mentions them.
  @transient override lazy val references: AttributeSet = left.outputSet ++ right.outputSet

  override def producedAttributes: AttributeSet = AttributeSet(added)

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): SyncJoin =
    copy(left = newLeft, right = newRight)
}

object SyncJoin {

  /** The watermark after the join is of left times: a right row may be older than the left ones that wait. */
  private def untimed(column: Attribute): Attribute = {
    val key = EventTimeWatermark.delayKey
    if (!column.metadata.contains(key)) column
    else column.withMetadata(new MetadataBuilder().withMetadata(column.metadata).remove(key).build())
  }
}

/** Keeps no state: a stream under AQE plans the same node again and again. */
object SyncJoinStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case join: SyncJoin =>
      SyncJoinExec(
        join.columns,
        join.settings,
        join.output,
        planLater(join.left),
        planLater(join.right)
      ) :: Nil
    case _ => Nil
  }
}
