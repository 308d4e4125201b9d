package io.tailrace.examples

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types.{ArrayType, DataType, LongType, StringType, StructType}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** Counts of each label over the rows that come out: an array of [[LabelCounts.Schema]]. Spark evaluates the aggregates of
  * `observe` one by one without generated code, so one that looks at each column once is worth its lines: in its place,
  * three a label took 6 % of a query.
  *
  * @param names     of the labels
  * @param isExample whether a row is counted
  * @param events    the labels' columns
  * @param truncated whether the cap has cut them
  */
private[examples] final case class LabelCounts(
    names: Seq[String],
    isExample: Expression,
    events: Seq[Expression],
    truncated: Seq[Expression],
    override val mutableAggBufferOffset: Int = 0,
    override val inputAggBufferOffset: Int = 0
) extends TypedImperativeAggregate[Array[Long]] {
  import LabelCounts._

  override def children: Seq[Expression] = isExample +: (events ++ truncated)
  override def nullable: Boolean = false
  override def dataType: DataType = ArrayType(Schema, containsNull = false)

  override def createAggregationBuffer(): Array[Long] = new Array[Long](Counts * names.size)

  // It is asked for each row: what is the same for all of them is looked at once.
  @transient private lazy val countsAll = isExample == Literal.TrueLiteral
  @transient private lazy val arrays = events.map(new LabelArray(_)).toArray
  @transient private lazy val caps = truncated.map(Option(_).filter(_ != Literal.FalseLiteral).orNull).toArray

  override def update(counts: Array[Long], row: InternalRow): Array[Long] = {
    if (countsAll || isExample.eval(row) == true) {
      var i = 0
      while (i < arrays.length) {
        val size = arrays(i).size(row)
        if (size > 0) {
          counts(Counts * i) += 1
          counts(Counts * i + 1) += size
        }
        if (caps(i) != null && caps(i).eval(row) == true) counts(Counts * i + 2) += 1
        i += 1
      }
    }
    counts
  }

  override def merge(counts: Array[Long], others: Array[Long]): Array[Long] = {
    counts.indices.foreach(i => counts(i) += others(i))
    counts
  }

  override def eval(counts: Array[Long]): Any = new GenericArrayData(
    names.zipWithIndex.map { case (name, i) =>
      val ofLabel = counts.slice(Counts * i, Counts * (i + 1)).map(_.asInstanceOf[Any])
      new GenericInternalRow(UTF8String.fromString(name) +: ofLabel)
    }
  )

  override def serialize(counts: Array[Long]): Array[Byte] = {
    val bytes = java.nio.ByteBuffer.allocate(8 * counts.length)
    counts.foreach(bytes.putLong)
    bytes.array
  }

  override def deserialize(bytes: Array[Byte]): Array[Long] = {
    val buffer = java.nio.ByteBuffer.wrap(bytes)
    Array.fill(bytes.length / 8)(buffer.getLong)
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(mutableAggBufferOffset = offset)

  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inputAggBufferOffset = offset)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): LabelCounts = {
    val (ofEvents, ofCaps) = newChildren.tail.splitAt(names.size)
    copy(isExample = newChildren.head, events = ofEvents, truncated = ofCaps)
  }
}

/** The number of a label's events in a row, mostly none. A column of a row that is in one piece is read there, without an
  * array made of it.
  */
private final class LabelArray(events: Expression) {
  private val column = events match {
    case BoundReference(place, _, _) => place
    case _ => -1
  }

  /** Null before the label's `since`: none. */
  def size(row: InternalRow): Int = row match {
    case unsafe: UnsafeRow if column >= 0 =>
      if (unsafe.isNullAt(column)) 0
      else {
        val at = unsafe.getBaseOffset + (unsafe.getLong(column) >>> 32)
        Platform.getLong(unsafe.getBaseObject, at).toInt
      }
    case _ =>
      events.eval(row) match {
        case array: ArrayData => array.numElements()
        case _ => 0
      }
  }
}

private[examples] object LabelCounts {
  private val Counts = 3

  val Schema: StructType = new StructType()
    .add("label", StringType)
    .add("matched", LongType)
    .add("events", LongType)
    .add("truncated", LongType)
}
