package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{BinaryType, StringType, StructField, StructType}

import io.tailrace.state.KeyEncoder

/** The columns of a join, and what is made of them in a task. `payload` are the right columns but the keys: they are the
  * value that the state keeps of a right row, and the element of a group.
  */
final case class JoinColumns(
    left: Seq[Attribute],
    right: Seq[Attribute],
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    leftTime: Attribute,
    rightTime: Attribute,
    added: Seq[Attribute]
) {
  val payload: Seq[Attribute] = JoinColumns.payload(right, rightKeys)

  private def ordinal(a: Attribute, in: Seq[Attribute]): Int = in.indexWhere(_.exprId == a.exprId)

  private def encoder(keys: Seq[Attribute], in: Seq[Attribute]): KeyEncoder =
    new KeyEncoder(keys.map(ordinal(_, in)).toArray, keys.map(_.dataType).toArray)

  def leftKeyEncoder(): KeyEncoder = encoder(leftKeys, left)
  def rightKeyEncoder(): KeyEncoder = encoder(rightKeys, right)
  def leftTimeOrdinal: Int = ordinal(leftTime, left)
  def rightTimeOrdinal: Int = ordinal(rightTime, right)

  /** Binary columns are bound as strings: they are copied as they are either way, and Spark's code for binary ones makes an
    * array of each on the way.
    */
  def payloadProjection(): UnsafeProjection =
    UnsafeProjection.create(payload.map { a =>
      val dataType = if (a.dataType == BinaryType) StringType else a.dataType
      BoundReference(ordinal(a, right), dataType, a.nullable)
    })

  /** The part of an operator's line in `explain` that names the key columns. */
  def keysText: String = s"keys=[${leftKeys.mkString(", ")}] = [${rightKeys.mkString(", ")}]"

  val leftSchema: StructType = JoinColumns.schema(left)
  val payloadSchema: StructType = JoinColumns.schema(payload)
}

object JoinColumns {
  def payload(right: Seq[Attribute], rightKeys: Seq[Attribute]): Seq[Attribute] =
    right.filterNot(a => rightKeys.exists(_.exprId == a.exprId))

  def schema(columns: Seq[Attribute]): StructType =
    StructType(columns.map(a => StructField(a.name, a.dataType, a.nullable)))
}
