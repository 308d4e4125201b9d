package io.tailrace.plan

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Attribute, Cast, Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.tailrace.SparkPlans.nullable
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, NumericType, StructType, TimestampType}
import org.apache.spark.sql.{AnalysisException, Column, DataFrame}

import io.tailrace.common.{Arguments, Errors, TailraceAnalysisException}

/** The columns of a DataFrame that a call's arguments name.
  *
  * @param sameName the session's rule for names, case-insensitive by default
  * @param frame    the DataFrame in an error: "the left DataFrame"
  */
private[tailrace] final class Columns(
    arguments: Arguments,
    output: Seq[Attribute],
    sameName: (String, String) => Boolean,
    frame: String = "the DataFrame"
) {
  import arguments.call

  def find(argument: String, name: String): Attribute = named(name) match {
    case Seq(one) => one
    case Seq() => throw notFound(argument, name)
    case _ => throw Errors.columnAmbiguous(call, argument, name, frame)
  }

  def find(argument: String, name: String, dataType: DataType): Attribute = {
    val found = find(argument, name)
    if (found.dataType == dataType) found else throw wrongType(argument, found, dataType.sql)
  }

  def has(name: String): Boolean = named(name).nonEmpty

  def wrongType(argument: String, column: Attribute, expected: String): TailraceAnalysisException =
    Errors.columnType(call, argument, column.name, frame, column.dataType.sql, Columns.made(column, expected))

  /** Refuses columns whose names are one: files with them can't be read.
    *
    * @param argument that names the columns
    */
  def checkDistinct(argument: String): Unit =
    output.map(_.name).find(named(_).size > 1).foreach(find(argument, _): Unit)

  /** Refuses a column that the call would add, if the DataFrame has one of its name. */
  def checkAdded(name: String, cure: String): Unit =
    if (has(name)) throw Errors.columnExists(call, name, frame, cure)

  private def named(name: String): Seq[Attribute] = output.filter(a => sameName(a.name, name))

  private def notFound(argument: String, name: String): TailraceAnalysisException =
    named(name.takeWhile(_ != '.')).find(_.dataType.isInstanceOf[StructType]) match {
      case Some(parent) => Errors.columnNested(call, argument, name, frame, parent.name)
      case None => Errors.columnNotFound(call, argument, name, frame, output.map(_.name))
    }
}

private[tailrace] object Columns {

  /** The column of this name, whatever characters it has. */
  def named(name: String): Column = col(quoteIdentifier(name))

  /** The name of a column that a user gave as a Column. Other expressions are refused.
    *
    * @param column   as text
    * @param frame    the DataFrame that has it
    * @param selected the DataFrame with this column only
    */
  def nameOf(
      call: String,
      argument: String,
      column: String,
      frame: LogicalPlan,
      selected: => LogicalPlan
  ): String = {
    val found =
      try selected
      catch {
        case _: AnalysisException =>
          val names = frame.output.map(_.name)
          val of =
            if (names.contains(column))
              "the DataFrame but of another one: give its name, or a pair (left, right)"
            else "the DataFrame"
          throw Errors.columnNotFound(call, argument, column, of, names)
      }
    found match {
      case Project(Seq(one: Attribute), _) if frame.outputSet.contains(one) => one.name
      case _ => throw Errors.columnExpression(call, argument, column)
    }
  }

  /** True if structs in two types have fields of the same names in the same order. A cast goes by the places of fields:
    * `{b, a}` as `{a, b}` would exchange their values.
    */
  def haveSameFields(one: DataType, other: DataType, sameName: (String, String) => Boolean): Boolean = {
    def same(one: DataType, other: DataType): Boolean = (one, other) match {
      case (StructType(fields), StructType(others)) =>
        fields.length == others.length && fields.zip(others).forall { case (a, b) =>
          sameName(a.name, b.name) && same(a.dataType, b.dataType)
        }
      case (ArrayType(element, _), ArrayType(known, _)) => same(element, known)
      case (MapType(key, value, _), MapType(knownKey, known, _)) => same(key, knownKey) && same(value, known)
      case _ => true
    }
    same(one, other)
  }

  /** The expected type. For a time in numbers with the functions that make it, because a cast reads any unit as
    * seconds.
    */
  private def made(column: Attribute, expected: String): String = column.dataType match {
    case _: NumericType if expected == TimestampType.sql =>
      s"$expected, made by timestamp_seconds, timestamp_millis or timestamp_micros (a cast reads seconds)"
    case _ => expected
  }

  /** The cure for a column that exists already. */
  def rename(name: String): String = s"Rename the column that is there: withColumnRenamed('$name', ...)."
}

/** A table whose rows take the place of rows of another plan. Columns are found by name, and other columns of the
  * table are left out. A column may have a type all of whose values are values of the wanted one.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class TableColumns(table: DataFrame, sameName: (String, String) => Boolean) {

  /** The wanted columns that the table lacks, or has in a type that doesn't fit: `price BIGINT`. */
  def lacking(wanted: Seq[Attribute]): Seq[String] = wanted
    .filterNot(column => found(column).exists { case (_, of) => fits(of, column.dataType) })
    .map(column => s"${column.name} ${column.dataType.sql}")

  /** The wanted columns, in their order.
    *
    * @param also an additional column of the table
    */
  def select(wanted: Seq[Attribute], also: Option[String] = None): DataFrame =
    table.select(wanted.map { column =>
      val (name, _) = found(column).get
      table.col(quoteIdentifier(name)).cast(nullable(column.dataType)).as(column.name): Column
    } ++ also.map(name => table.col(quoteIdentifier(name))): _*)

  private def found(column: Attribute): Option[(String, DataType)] =
    table.schema.find(field => sameName(field.name, column.name)).map(field => field.name -> field.dataType)

  // Tables declare few columns as never null.
  private def fits(of: DataType, column: DataType) =
    Cast.canUpCast(of, nullable(column)) && Columns.haveSameFields(of, column, sameName)
}

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
