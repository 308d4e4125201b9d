package io.tailrace.why

import scala.util.Try

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Cast, GenericInternalRow, Literal}
import org.apache.spark.sql.types.{ArrayType, Decimal, StructField, StructType}

import io.tailrace.common.Errors
import io.tailrace.inspect.StateColumns
import io.tailrace.join.{JoinCheckpoint, KeyPartitions}
import io.tailrace.state.{KeyEncoder, RowLayout}

/** The key of a join that a user asks for: `user_id=7,item_id=42`.
  *
  * @param columns of the join
  */
private[why] final class AskedKey(text: String, columns: StateColumns) {
  private val named = columns.key.filter(_.name != JoinCheckpoint.Part)
  private val values: Seq[Any] = {
    val told = AskedKey.split(text, named.map(_.name)).getOrElse(throw invalid(names))
    if (told.map(_._1).toSet != named.map(_.name).toSet || told.size != named.size) throw invalid(names)
    named.map(column => value(column, told.toMap.apply(column.name)))
  }

  /** The rows that stand for the key in a state of so many partitions: one for each part.
    *
    * {{{
    *   user_id=7                    partition 3: {7}
    *   user_id=7, hot in 2 parts    partition 3: {7, 0}   partition 1: {7, 1}
    * }}}
    */
  def probes(partitions: Int): Map[Int, Seq[Array[Byte]]] = {
    val places = new KeyPartitions(columns.key.map(_.dataType), Seq(partitions))
    val encoder = new KeyEncoder(columns.key.indices.toArray, columns.key.map(_.dataType).toArray)
    val parts = columns.part.flatMap(_ => columns.parts).getOrElse(1)
    (0 until parts)
      .map { part =>
        val length = encoder.encode(withPart(part))
        val probe = RowLayout.ofKey(encoder.bytes, length)
        places.of(RowLayout.keyBytes(probe, StoredRow.Start)).getInt(0) -> probe
      }
      .groupMap(_._1)(_._2)
  }

  private def withPart(part: Int): InternalRow = {
    val left = values.iterator
    new GenericInternalRow(
      columns.key.map(column => if (column.name == JoinCheckpoint.Part) part else left.next()).toArray[Any]
    )
  }

  private def value(column: StructField, text: String): Any = column.dataType match {
    case other @ (_: StructType | _: ArrayType) =>
      throw invalid(s"a key of single values, and ${column.name} is ${other.sql}")
    case dataType =>
      Try(Cast(Literal(text), dataType, Some("UTC")).eval()).toOption
        .filter(value => value != null && isAsTold(value, text))
        .getOrElse(throw invalid(s"a value of the type ${dataType.sql} for ${column.name}"))
  }

  /** Spark's cast rounds, and 1.505 would be another key, 1.51. */
  private def isAsTold(value: Any, text: String): Boolean = value match {
    case rounded: Decimal => new java.math.BigDecimal(text.trim).compareTo(rounded.toJavaBigDecimal) == 0
    case _ => true
  }

  private def names: String =
    s"a value for each key column: ${named.map(c => s"${c.name}=...").mkString(",")}"

  private def invalid(allowed: String) = Errors.optionInvalid("tailrace why", "--key", text, allowed)
}

private[why] object AskedKey {

  /** Splits the text where a column's name and `=` follow the beginning or a comma. A value may have commas. */
  private[why] def split(text: String, names: Seq[String]): Option[Seq[(String, String)]] = {
    def begins(at: Int): Option[(Int, String)] =
      names.find(name => text.startsWith(s"$name=", at)).map(name => at -> name)
    val commas = text.indices.filter(text.charAt(_) == ',').map(_ + 1)
    val blanksLeft = (0 +: commas).map(at => at + text.drop(at).takeWhile(_ == ' ').length)
    val starts = blanksLeft.flatMap(begins)
    val ends = starts.drop(1).map { case (at, _) => text.lastIndexOf(',', at - 1) } :+ text.length
    Option.when(starts.headOption.exists(_._1 == blanksLeft.head)) {
      starts.zip(ends).map { case ((at, name), end) => name -> text.substring(at + name.length + 1, end) }
    }
  }
}
