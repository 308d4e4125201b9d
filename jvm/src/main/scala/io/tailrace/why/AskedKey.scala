package io.tailrace.why

import scala.util.Try

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Cast, GenericInternalRow, Literal}
import org.apache.spark.sql.types.{ArrayType, Decimal, StructField, StructType}

import io.tailrace.common.{Errors, TailraceAnalysisException}
import io.tailrace.inspect.StateColumns
import io.tailrace.join.{JoinCheckpoint, KeyPartitions}
import io.tailrace.state.{KeyEncoder, RowLayout}

/** The key of a join that a user asks for: `user_id=7,item_id=42`.
  *
  * @param told    the text of each column's value; more than the join's key columns, if another join has them
  * @param columns of the join
  * @param invalid the error for a text that isn't allowed
  */
private[why] final class AskedKey private (
    told: Map[String, String],
    columns: StateColumns,
    invalid: String => TailraceAnalysisException
) {
  private val values: Seq[Any] = AskedKey.named(columns).map(column => value(column, told(column.name)))

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

}

private[why] object AskedKey {

  /** What is asked of each of a query's joins. One that has further key columns isn't asked.
    *
    * {{{
    *   --key user_id=7,item_id=42
    *
    *   features, by user_id            user_id=7
    *   labels, by user_id and item_id  user_id=7, item_id=42
    *   a join by user_id and country   None
    * }}}
    *
    * @param joins the columns of the joins
    * @throws io.tailrace.common.TailraceAnalysisException TAILRACE_OPTION_INVALID if no join is asked, or if a column
    *                                                      that is named is no key column of one that is
    */
  def of(text: String, joins: Seq[StateColumns]): Seq[Option[AskedKey]] = {
    def invalid(allowed: String) = Errors.optionInvalid("tailrace why", "--key", text, allowed)
    val keys = joins.map(named(_).map(_.name))
    lazy val wrong = invalid(joins.map(whole).distinct.mkString("a value for each key column: ", " or ", ""))
    val texts = split(text, keys.flatten.distinct).getOrElse(throw wrong)
    val told = texts.map(_._1).toSet
    val asked = keys.filter(_.forall(told)).flatten.toSet
    if (told != asked || texts.size != asked.size) throw wrong
    joins.zip(keys).map { case (columns, key) =>
      Option.when(key.forall(asked))(new AskedKey(texts.toMap, columns, invalid))
    }
  }

  /** How a user names the whole key of a join: `user_id=...,item_id=...`. */
  def whole(columns: StateColumns): String =
    named(columns).map(column => s"${column.name}=...").mkString(",")

  /** The key columns as a user knows them. */
  private def named(columns: StateColumns): Seq[StructField] =
    columns.key.filter(_.name != JoinCheckpoint.Part)

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
