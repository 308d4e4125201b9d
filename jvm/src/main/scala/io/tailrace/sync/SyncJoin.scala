package io.tailrace.sync

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

import io.tailrace.join.{JoinColumns, OneEventTime, StoredJoinExec}
import io.tailrace.plan.{Obstacle, StreamJoin, WriteCheck}

/** `tailrace.sync_join` as the user wrote it, resolved: above a [[SyncProgress]] on each side.
  *
  * @param paired the right columns but the keys, under names and ids of their own
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
) extends StreamJoin {
  override def operator: String = "tailrace.sync_join"
  override def onlyAppends: Boolean = true
  override def holdsRows: Boolean = true
  override def description: String = "a tailrace.sync_join"
  override def rightTimes: Seq[(Attribute, Attribute)] = Nil
  override def writeChecks: Seq[WriteCheck] = Seq(SyncJoin.NamesCheck)

  override def refusedInRecursion: Option[Obstacle] = Some(
    Obstacle("sync_join", "it waits for partitions of its inputs, and a row that comes round is of none")
  )

  override def output: Seq[Attribute] = {
    // Right rows that come out by themselves have nulls on the left.
    val one = OneEventTime.of(left.output, leftTime)
    (if (settings.rightComesOutAlone) one.map(_.withNullability(true)) else one) ++ paired ++ added
  }

  def columns: JoinColumns =
    JoinColumns(left.output, right.output, leftKeys, rightKeys, leftTime, rightTime, added)

  // All columns of both sides come out; no expression of this node mentions them.
  @transient override lazy val references: AttributeSet = left.outputSet ++ right.outputSet

  override def producedAttributes: AttributeSet = AttributeSet(paired ++ added)

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): SyncJoin =
    copy(left = newLeft, right = newRight)
}

object SyncJoin {

  /** Two synced joins of one name would write into one directory of the checkpoint. */
  private object NamesCheck extends WriteCheck {
    override def apply(write: WriteToStreamStatement): Unit = {
      val names = write.inputQuery.collect { case join: SyncJoin => join.settings.name }
      WriteCheck.unique("tailrace.sync_join", names)
    }
  }

  /** A right column in the result. The watermark after the join is of left times: a right row may be older than the left ones
    * that wait.
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
