package io.tailrace.sync

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

import io.tailrace.join.{JoinNode, OneEventTime, StoredJoinExec}
import io.tailrace.plan.{Obstacle, WriteCheck}

/** The logical node of `tailrace.sync_join`, above a [[SyncProgress]] on each side.
  *
  * @param paired the right columns but the keys, under names of their own
  * @param added  the column `_mark`, if duplicates or rows ahead of the clock come out marked
  */
case class SyncJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    leftTime: Attribute,
    rightTime: Attribute,
    settings: SyncSettings,
    paired: Seq[Attribute],
    added: Seq[Attribute]
) extends JoinNode {
  override def operator: String = "tailrace.sync_join"
  override def holdsRows: Boolean = true
  override def description: String = "a tailrace.sync_join"
  override def rightTimes: Seq[(Attribute, Attribute)] = Nil
  override def writeChecks: Seq[WriteCheck] = Seq(SyncJoin.NamesCheck)

  override def refusedInRecursion: Option[Obstacle] = Some(
    Obstacle("sync_join", "it waits for partitions of its inputs, and a row that comes round is of none")
  )

  override def rightComesOutAlone: Boolean = settings.rightComesOutAlone

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): SyncJoin =
    copy(left = newLeft, right = newRight)
}

object SyncJoin {

  private val NamesCheck = WriteCheck.uniqueNames("tailrace.sync_join") { case join: SyncJoin =>
    join.settings.name
  }

  /** A right column in the result. The watermark after the join is of left times: a right row may be older
    * than the left ones that wait.
    */
  def paired(column: Attribute, name: String): Attribute = {
    val own = OneEventTime.unmarked(column)
    AttributeReference(name, own.dataType, nullable = true, own.metadata)()
  }
}

/** Keeps no state: a stream under AQE plans the same node again and again. */
object SyncJoinStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case join: SyncJoin =>
      val stored = StoredSyncJoin(join.columns, join.settings)
      StoredJoinExec(stored, join.output, planLater(join.left), planLater(join.right)) :: Nil
    case _ => Nil
  }
}
