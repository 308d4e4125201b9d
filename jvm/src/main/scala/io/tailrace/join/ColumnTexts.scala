package io.tailrace.join

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/** Columns as a text of a checkpoint's settings: `user_id BIGINT, item STRUCT<a: INT, b: STRING>`. */
object ColumnTexts {
  def write(columns: Seq[Attribute]): String = columns.map(a => s"${a.name} ${a.dataType.sql}").mkString(", ")

  /** Names may have spaces, commas and brackets. Of several ways to read a text, one with whole types counts
    * first, whose names have no brackets or colons, and then the one with most columns.
    */
  def read(text: String): Option[StructType] =
    readings(text)
      .maxByOption(found => (found.forall(_._1.forall(!"<>:".contains(_))), found.size))
      .map(columns => StructType(columns.map { case (name, dataType) => StructField(name, dataType) }))

  private def readings(columns: String): LazyList[Seq[(String, DataType)]] =
    positions(columns, " ").flatMap { nameEnd =>
      val rest = columns.drop(nameEnd + 1)
      (positions(rest, ", ") :+ rest.length).flatMap { typeEnd =>
        for {
          first <- LazyList.from(Try(CatalystSqlParser.parseDataType(rest.take(typeEnd))).toOption)
          name = columns.take(nameEnd)
          others <- if (typeEnd == rest.length) LazyList(Nil) else readings(rest.drop(typeEnd + 2))
        } yield (name -> first) +: others
      }
    }

  private def positions(text: String, of: String): LazyList[Int] =
    LazyList.iterate(text.indexOf(of))(at => text.indexOf(of, at + 1)).takeWhile(_ >= 0)
}
