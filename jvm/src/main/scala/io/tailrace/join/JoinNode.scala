package io.tailrace.join

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.{QueryStart, SparkPlans}
import org.apache.spark.sql.types.{BinaryType, MetadataBuilder, StringType, StructType}

import io.tailrace.checkpoint.RepartitionTurn
import io.tailrace.plan.{StreamJoin, WriteCheck}
import io.tailrace.state.KeyEncoder

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

  /** The settings that a stream of it binds its checkpoint to, without those that a user may leave to Tailrace. */
  def boundSettings: Map[String, String]

  /** True if left rows that were emitted may be amended. */
  def amends: Boolean

  /** As a stream of it has them: [[StoredJoin.keptColumns]]. */
  def keptColumns: Option[Set[String]] = None

  /** The same join for the one micro-batch of an import, which takes rows as they are and emits none.
    *
    * @param left  has the columns of the left side, and behind them a BOOLEAN: whether the row was emitted, and is
    *              there to be amended
    * @param right has the columns of the right side, and behind them a BIGINT: the version of the state in which the
    *              row counts as late; null for a row that wasn't late
    */
  def importing(left: LogicalPlan, right: LogicalPlan): ImportableJoin
}

/** Each side of a join has one event time. Further columns may be marked as event times, in the pairs of
  * another join for instance. The join takes the mark from them: the watermark behind it is about the side's
  * own event time, and a row may be older by another column. Spark refuses two marked columns in the input of
  * a join.
  */
object OneEventTime {
  private val key = EventTimeWatermark.delayKey

  def of(columns: Seq[Attribute], time: Attribute): Seq[Attribute] =
    columns.map(a => if (a.exprId == time.exprId) a else unmarked(a))

  /** A column that comes out of a stream's state. It may be null where it isn't in the input, at any depth: rows may
    * have been written before there was such a column ([[ColumnChanges]]).
    */
  def lacking(column: Attribute): Attribute =
    column.withNullability(true).withDataType(SparkPlans.nullable(column.dataType))

  def unmarked(column: Attribute): Attribute =
    if (!column.metadata.contains(key)) column
    else column.withMetadata(new MetadataBuilder().withMetadata(column.metadata).remove(key).build())
}

/** Gives the same rows with one event time. Spark would remove a projection that does the same. */
final case class OneEventTimeExec(time: Attribute, child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = OneEventTime.of(child.output, time)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(newChild: SparkPlan): OneEventTimeExec = copy(child = newChild)
}

object OneEventTimeExec {

  /** A side of a streaming join. */
  def side(plan: SparkPlan, time: Attribute): SparkPlan =
    if (plan.output.count(_.metadata.contains(EventTimeWatermark.delayKey)) > 1) OneEventTimeExec(time, plan)
    else plan
}

/** The columns of a join, and their encoders and projections in a task. `payload` is the right columns
  * without the keys: the value of a right row in the state, and the element of a group.
  *
  * @param touch the payload of the right row that each left row leaves of itself, by left columns; empty: none
  * @param kept  left columns that an amended row has beside the keys and the time
  * @param identity the left column that tells rows of one key and time apart, if anybody asks
  * @param areImported whether rows have an additional column after these: see [[ImportableJoin.importing]]
  */
final case class JoinColumns(
    left: Seq[Attribute],
    right: Seq[Attribute],
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    leftTime: Attribute,
    rightTime: Attribute,
    added: Seq[Attribute],
    touch: Seq[Expression] = Nil,
    kept: Seq[Attribute] = Nil,
    identity: Option[Attribute] = None,
    areImported: Boolean = false
) {
  val payload: Seq[Attribute] = JoinColumns.payload(right, rightKeys)

  /** The same columns with the pairs of keys in the order that a checkpoint has them in. The order decides the bytes of
    * the state's keys and the partition of each row, and a query may name its pairs in any order.
    *
    * @param settings of the checkpoint
    * @return these columns if the checkpoint has other keys
    */
  def withKeysAsIn(settings: Map[String, String]): JoinColumns = {
    val ordered = for {
      lefts <- settings.get(JoinCheckpoint.LeftKeys)
      rights <- settings.get(JoinCheckpoint.RightKeys)
      pairs <- ColumnTexts.ordered(leftKeys.zip(rightKeys), lefts, rights)
    } yield copy(leftKeys = pairs.map(_._1), rightKeys = pairs.map(_._2))
    ordered.getOrElse(this)
  }

  private def ordinal(a: Attribute, in: Seq[Attribute]): Int = in.indexWhere(_.exprId == a.exprId)

  private def encoder(keys: Seq[Attribute], in: Seq[Attribute]): KeyEncoder =
    new KeyEncoder(keys.map(ordinal(_, in)).toArray, keys.map(_.dataType).toArray)

  def leftKeyEncoder(): KeyEncoder = encoder(leftKeys, left)
  def rightKeyEncoder(): KeyEncoder = encoder(rightKeys, right)
  def leftTimeOrdinal: Int = ordinal(leftTime, left)
  def rightTimeOrdinal: Int = ordinal(rightTime, right)
  def identityOrdinal: Option[Int] = identity.map(ordinal(_, left))

  /** Binary columns are bound as strings. Both are copied as they are, but Spark's code for binary columns
    * makes an array of each value.
    */
  def payloadProjection(): UnsafeProjection =
    UnsafeProjection.create(payload.map { a =>
      val dataType = if (a.dataType == BinaryType) StringType else a.dataType
      BoundReference(ordinal(a, right), dataType, a.nullable)
    })

  /** The left columns of a row that has more of them. */
  def leftProjection(): UnsafeProjection =
    UnsafeProjection.create(left.zipWithIndex.map { case (a, i) =>
      BoundReference(i, a.dataType, a.nullable)
    })

  /** The right row that a left row leaves of itself, if it leaves one. */
  def touchProjection(): Option[UnsafeProjection] =
    Option.when(touch.nonEmpty)(UnsafeProjection.create(touch, left))

  /** The time of left rows with a null in their key, and null of others: see [[StoredJoin.leftSpread]]. */
  def spreadOfNullKeys: Option[Expression] = {
    val mayBeNull = leftKeys.filter(_.nullable)
    Option.when(mayBeNull.nonEmpty) {
      If(mayBeNull.map(IsNull(_): Expression).reduce(Or(_, _)), leftTime, Literal(null, leftTime.dataType))
    }
  }

  /** The part of an operator's line in `explain` that names the key columns. */
  def keysText: String = s"keys=[${leftKeys.mkString(", ")}] = [${rightKeys.mkString(", ")}]"

  val leftSchema: StructType = DataTypeUtils.fromAttributes(left)
  val payloadSchema: StructType = DataTypeUtils.fromAttributes(payload)
}

object JoinColumns {
  def payload(right: Seq[Attribute], rightKeys: Seq[Attribute]): Seq[Attribute] =
    right.filterNot(a => rightKeys.exists(_.exprId == a.exprId))
}

/** Refuses the setting with which Spark gives all stateful operators of a query one watermark. A join emits rows behind
  * the watermark of its input, and tells Spark a watermark for them. Without it, an operator downstream of the join drops them.
  */
private[join] final case class OwnWatermark(operator: String) extends WriteCheck {
  override def apply(start: QueryStart): Unit =
    if (!start.hasWatermarkPerOperator) throw JoinErrors.watermarkShared(operator)
}

/** Does what a rescaling that has died behind its turn has left to do. A query looks before Spark reads its logs:
  * behind that the number of partitions would be too late.
  */
private[tailrace] object TurnAtStart extends WriteCheck {
  override def apply(start: QueryStart): Unit =
    start.checkpoint.foreach(RepartitionTurn.finish(_, start.hadoopConf))
}
