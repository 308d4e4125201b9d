package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{BinaryType, BooleanType, StringType, StructField, StructType}

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

  val leftSchema: StructType = JoinColumns.schema(left)
  val payloadSchema: StructType = JoinColumns.schema(payload)
  val lateSchema: StructType = StructType(
    Seq(StructField(JoinSettings.LateColumn, BooleanType, nullable = false))
  )

  /** A left row that comes out by itself: with an empty group, or with nulls for the right row of a pair. */
  def leftAlone(settings: JoinSettings, late: Boolean): UnsafeProjection =
    UnsafeProjection.create(
      left ++ rest(settings, late, payload.map(a => Literal(null, a.dataType)), Nil),
      left
    )

  /** A right row that comes out by itself: the left columns null but the keys. */
  def rightAlone(settings: JoinSettings): UnsafeProjection = {
    val nulls = left.map { a =>
      val key = leftKeys.indexWhere(_.exprId == a.exprId)
      if (key >= 0) rightKeys(key) else Literal(null, a.dataType)
    }
    val element = CreateNamedStruct(payload.flatMap(a => Seq(Literal(a.name), a)))
    UnsafeProjection.create(nulls ++ rest(settings, late = true, payload, Seq(element)), right)
  }

  private def rest(
      settings: JoinSettings,
      late: Boolean,
      pairColumns: Seq[Expression],
      elements: Seq[Expression]
  ): Seq[Expression] = {
    val flag = if (settings.emitLate) Seq(Literal(late)) else Nil
    if (!settings.isGrouped) pairColumns ++ flag
    else {
      val group = if (elements.isEmpty) Literal.create(Nil, added.head.dataType) else CreateArray(elements)
      (group +: settings.maxMatches.toSeq.map(_ => Literal(false))) ++ flag
    }
  }
}

object JoinColumns {
  def payload(right: Seq[Attribute], rightKeys: Seq[Attribute]): Seq[Attribute] =
    right.filterNot(a => rightKeys.exists(_.exprId == a.exprId))

  def schema(columns: Seq[Attribute]): StructType =
    StructType(columns.map(a => StructField(a.name, a.dataType, a.nullable)))
}
