package io.tailrace.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.types._

/** Keys of two numeric types are compared in one that has all values of both, as Spark's own joins do. Types without such
  * a one are left as they are, to be refused: a BIGINT as a DOUBLE is another number.
  */
private[join] object WiderKeys {
  private val IntegralDigits: Map[DataType, Int] =
    Map(ByteType -> 3, ShortType -> 5, IntegerType -> 10, LongType -> 19)

  /** @return none, if there isn't one or the types are the same */
  def common(one: DataType, other: DataType): Option[DataType] = (one, other) match {
    case (a, b) if a == b => None
    case (a, b) if Seq(a, b).forall(IntegralDigits.contains) => Some(Seq(a, b).maxBy(IntegralDigits))
    case (FloatType, DoubleType) | (DoubleType, FloatType) => Some(DoubleType)
    case (a: DecimalType, b) => decimal(b).flatMap(wider(a, _))
    case (a, b: DecimalType) => decimal(a).flatMap(wider(_, b))
    case _ => None
  }

  private def decimal(of: DataType): Option[DecimalType] = of match {
    case d: DecimalType => Some(d)
    case integral => IntegralDigits.get(integral).map(DecimalType(_, 0))
  }

  private def wider(a: DecimalType, b: DecimalType): Option[DecimalType] = {
    val scale = Math.max(a.scale, b.scale)
    val precision = scale + Math.max(a.precision - a.scale, b.precision - b.scale)
    Option.when(precision <= DecimalType.MAX_PRECISION)(DecimalType(precision, scale))
  }

  /** The plan with some of its columns in other types, under their names and in their places. */
  def cast(plan: LogicalPlan, types: Map[ExprId, DataType]): LogicalPlan =
    if (types.isEmpty) plan
    else {
      Project(
        plan.output.map { a =>
          types.get(a.exprId).fold[NamedExpression](a)(to => Alias(Cast(a, to, ansiEnabled = true), a.name)())
        },
        plan
      )
    }
}
