package io.tailrace.plan

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}

import io.tailrace.common.Errors

/** A Tailrace SQL function, in the form of Spark's registry. */
object SqlFunction {
  type Description = (FunctionIdentifier, ExpressionInfo, Seq[Expression] => Expression)

  /** @param call  the name and the arguments, as a user writes them
    * @param build makes the expression of as many arguments as it takes
    */
  def apply(expression: Class[_], call: String, usage: String)(
      build: PartialFunction[Seq[Expression], Expression]
  ): Description = {
    val name = call.takeWhile(_ != '(')
    val help = s"$call - $usage"
    (
      FunctionIdentifier(name),
      new ExpressionInfo(expression.getName, null, name, help, "", "", "", "misc_funcs", "", "", ""),
      arguments =>
        build.applyOrElse(arguments, (a: Seq[Expression]) => throw Errors.functionArguments(call, a.size))
    )
  }
}
