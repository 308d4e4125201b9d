package io.tailrace.testing

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types._

/** Rows of a test's query as Arrow and Python have them.
  *
  * {{{
  *   s struct<a int NOT NULL>, null there   struct<a int>: Arrow lets a struct be null only where its fields may be
  *   i interval year to month               int: its months, because Python has no such type
  * }}}
  */
private[tailrace] object ReadableRows {

  def of(frame: DataFrame): DataFrame = {
    val fields = frame.schema.fields.toSeq
    // Columns of one name are allowed.
    val places = fields.indices.map(n => s"c$n")
    val columns = fields.zip(places).map { case (field, place) =>
      val months = changed(field.dataType, field.nullable, inMonths)
      val read = changed(months, field.nullable, asNumber)
      if (read == field.dataType) None else Some(col(place).cast(months).cast(read).as(place))
    }
    if (columns.forall(_.isEmpty)) frame
    else {
      val all = columns.zip(places).map { case (column, place) => column.getOrElse(col(place)) }
      frame.toDF(places: _*).select(all: _*).toDF(fields.map(_.name): _*)
    }
  }

  private def inMonths(kind: DataType): DataType = kind match {
    case _: YearMonthIntervalType => YearMonthIntervalType(YearMonthIntervalType.MONTH)
    case other => other
  }

  private def asNumber(kind: DataType): DataType = kind match {
    case _: YearMonthIntervalType => IntegerType
    case other => other
  }

  /** A type whose structs may be null only where their fields may be, and with each of its plain types changed.
    *
    * @param nullable whether its values may be null
    */
  private def changed(kind: DataType, nullable: Boolean, change: DataType => DataType): DataType =
    kind match {
      case StructType(fields) =>
        StructType(fields.map { field =>
          val may = nullable || field.nullable
          field.copy(dataType = changed(field.dataType, may, change), nullable = may)
        })
      case ArrayType(element, nulls) => ArrayType(changed(element, nulls, change), nulls)
      case MapType(key, value, nulls) =>
        MapType(changed(key, nullable = false, change), changed(value, nulls, change), nulls)
      case plain => change(plain)
    }
}
