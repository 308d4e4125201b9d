package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.{DataType, StructType, TimestampNTZType, TimestampType}

import io.tailrace.common.Errors
import io.tailrace.state.KeyEncoder

/** The two sides of a join, and the columns of them that the user names.
  *
  * @param sameName the session's rule for names, case-insensitive by default
  */
private[tailrace] final class JoinSides(
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
      case Seq() => throw notFound(side, argument, name)
      case _ => throw Errors.columnAmbiguous(side, argument, name)
    }

  private def notFound(side: String, argument: String, name: String): Throwable = {
    val columns = sides(side).output
    val nested =
      columns.find(a => a.dataType.isInstanceOf[StructType] && sameName(a.name, name.takeWhile(_ != '.')))
    nested.fold(Errors.columnNotFound(side, argument, name, columns.map(_.name)))(a =>
      JoinErrors.columnNested(side, argument, name, a.name)
    )
  }

  def has(side: String, name: String): Boolean = sides(side).output.exists(a => sameName(a.name, name))

  /** Has a join made of the sides with numeric keys of one type, where they have two: of the wider one. Left columns come out
    * as they were.
    *
    * @param rightAlone whether right rows come out by themselves: left columns may have no room for their keys, and stay wide
    */
  def withWiderKeys(on: Seq[(String, String)], rightAlone: Boolean)(
      join: JoinSides => LogicalPlan
  ): LogicalPlan = {
    val wider = on.flatMap { case (l, r) =>
      val (left, right) = (column("left", "on", l), column("right", "on", r))
      WiderKeys.common(left.dataType, right.dataType).map(to => (left, right, to))
    }
    // A column that several keys name is refused or not as it is.
    def isNamedAgain(keys: Seq[Attribute]) = keys.map(_.exprId).distinct.size < keys.size
    if (wider.isEmpty || isNamedAgain(wider.map(_._1)) || isNamedAgain(wider.map(_._2))) join(this)
    else {
      def changed(keys: Seq[(Attribute, DataType)]) =
        keys.collect { case (key, to) if key.dataType != to => key.exprId -> to }.toMap
      val lefts = changed(wider.map { case (l, _, to) => l -> to })
      val rights = changed(wider.map { case (_, r, to) => r -> to })
      val joined = join(new JoinSides(WiderKeys.cast(left, lefts), WiderKeys.cast(right, rights), sameName))
      val narrow = wider.collect { case (l, _, to) if l.dataType != to => l.name -> l.dataType }.toMap
      if (rightAlone) joined
      else WiderKeys.cast(joined, joined.output.flatMap(a => narrow.get(a.name).map(a.exprId -> _)).toMap)
    }
  }

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

private[tailrace] object JoinSides {

  /** A frame joined with one that was made of it has the same columns on both sides: gives the right ones new ids. */
  private def withoutSharedColumns(left: LogicalPlan, right: LogicalPlan): LogicalPlan =
    if (left.outputSet.intersect(right.outputSet).isEmpty) right
    else Project(right.output.map(a => Alias(a, a.name)(explicitMetadata = Some(a.metadata))), right)
}
