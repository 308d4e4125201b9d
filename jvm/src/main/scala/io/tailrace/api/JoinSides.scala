package io.tailrace.api

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.{TimestampNTZType, TimestampType}

import io.tailrace.common.Errors
import io.tailrace.state.KeyEncoder

/** The two sides of a join, and the columns of them that the user names.
  *
  * @param sameName the session's rule for names, case-insensitive by default
  */
private[api] final class JoinSides(
    val left: LogicalPlan,
    unalignedRight: LogicalPlan,
    sameName: (String, String) => Boolean
) {
  val right: LogicalPlan = JoinSides.withoutSharedColumns(left, unalignedRight)
  private val sides = Map("left" -> left, "right" -> right)

  def side(name: String): LogicalPlan = sides(name)

  def column(side: String, argument: String, name: String): Attribute =
    sides(side).output.filter(a => sameName(a.name, name)) match {
      case Seq(one) => one
      case Seq() => throw Errors.columnNotFound(side, argument, name, sides(side).output.map(_.name))
      case _ => throw Errors.columnAmbiguous(side, argument, name)
    }

  def has(side: String, name: String): Boolean = sides(side).output.exists(a => sameName(a.name, name))

  /** The key columns of the two sides, of equal and orderable types. */
  def keys(on: Seq[(String, String)]): (Seq[Attribute], Seq[Attribute]) = {
    if (on.isEmpty) throw Errors.keysMissing()
    val leftKeys = on.map(pair => column("left", "on", pair._1))
    val rightKeys = on.map(pair => column("right", "on", pair._2))
    leftKeys.zip(rightKeys).foreach { case (l, r) => checkKey(l, r) }
    (leftKeys, rightKeys)
  }

  private def checkKey(l: Attribute, r: Attribute): Unit = {
    Seq(l, r).foreach { a =>
      KeyEncoder.refusal(a.dataType).foreach {
        case KeyEncoder.Collated => throw Errors.keyCollated(a.name, a.dataType.sql)
        case KeyEncoder.NotOrderable => throw Errors.keyTypeUnsupported(a.name, a.dataType.sql)
      }
    }
    // Nullability inside a type doesn't change what a value is.
    if (!DataTypeUtils.sameType(l.dataType, r.dataType)) {
      throw Errors.keyTypesDiffer(l.name, l.dataType.sql, r.name, r.dataType.sql)
    }
  }

  /** The time columns of the two sides, timestamps of one type. */
  def times(leftName: String, rightName: String): (Attribute, Attribute) = {
    val leftTime = time("left", leftName)
    val rightTime = time("right", rightName)
    if (leftTime.dataType != rightTime.dataType) {
      throw Errors.timeTypesDiffer(
        leftTime.name,
        leftTime.dataType.sql,
        rightTime.name,
        rightTime.dataType.sql
      )
    }
    (leftTime, rightTime)
  }

  private def time(side: String, name: String): Attribute = {
    val found = column(side, s"${side}_time", name)
    found.dataType match {
      case TimestampType | TimestampNTZType => found
      case other => throw Errors.timeType(side, found.name, other.sql)
    }
  }
}

private[api] object JoinSides {

  /** A frame joined with one that was made of it has the same columns on both sides: gives the right ones new ids. */
  private def withoutSharedColumns(left: LogicalPlan, right: LogicalPlan): LogicalPlan =
    if (left.outputSet.intersect(right.outputSet).isEmpty) right
    else Project(right.output.map(a => Alias(a, a.name)(explicitMetadata = Some(a.metadata))), right)
}
