package io.tailrace.join

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.{BinaryType, DataType, MetadataBuilder, StringType, StructType}

import io.tailrace.state.{KeyDecoder, KeyEncoder}

/** The columns of a join, and their encoders and projections in a task. `payload` is the right columns
  * without the keys: the value of a right row in the state, and the element of a group.
  *
  * @param touch the payload of the right row that each left row leaves of itself, by left columns; empty: none
  * @param kept  left columns that an amended row has beside the keys and the time
  * @param identity the left column that tells rows of one key and time apart, if anybody asks
  * @param areImported true if rows have an additional column after these: see [[ImportableJoin.importing]]
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

  def schema: JoinSchema = JoinSchema.of(leftSchema, payloadSchema)

  val leftSchema: StructType = DataTypeUtils.fromAttributes(left)
  val payloadSchema: StructType = DataTypeUtils.fromAttributes(payload)
}

object JoinColumns {
  def payload(right: Seq[Attribute], rightKeys: Seq[Attribute]): Seq[Attribute] =
    right.filterNot(a => rightKeys.exists(_.exprId == a.exprId))
}

/** Each side of a join has one event time. Further columns may be marked as event times, in the pairs of
  * another join for instance. The join takes the mark from them: the watermark after it is about the side's
  * own event time, and a row may be older by another column. Spark refuses two marked columns in the input of
  * a join.
  */
object OneEventTime {
  private val key = EventTimeWatermark.delayKey

  def of(columns: Seq[Attribute], time: Attribute): Seq[Attribute] =
    columns.map(a => if (a.exprId == time.exprId) a else unmarked(a))

  /** A column that is emitted from a stream's state. It may be null where it isn't in the input, at any depth: rows may
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

/** The state partition of a key: that to which Spark's shuffle sends its rows.
  *
  * @param keys    types of the key columns
  * @param numbers of partitions, each of which sends a key elsewhere
  */
private[tailrace] final class KeyPartitions(keys: Seq[DataType], numbers: Seq[Int]) {
  private val decoder = new KeyDecoder(keys.toArray)
  private val ids = {
    val columns = keys.zipWithIndex.map { case (dataType, i) => BoundReference(i, dataType, nullable = true) }
    UnsafeProjection.create(numbers.map(HashPartitioning(columns, _).partitionIdExpression))
  }

  /** @param key of a row, whole
    * @return the partition by each of the numbers; the row is used again
    * @throws RuntimeException if the key has other bytes than keys of these types
    */
  def of(key: Array[Byte]): InternalRow = ids(decoder.decodeWhole(key))
}
