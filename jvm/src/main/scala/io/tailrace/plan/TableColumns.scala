package io.tailrace.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, Cast}
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.tailrace.SparkPlans.nullable
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.{Column, DataFrame}

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
