package io.tailrace.ops.why

import scala.collection.immutable.ListMap
import scala.util.Try

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Cast, GenericInternalRow, Literal}
import org.apache.spark.sql.types.{ArrayType, Decimal, StringType, StructField, StructType}

import io.tailrace.common.{Errors, Side, TailraceAnalysisException}
import io.tailrace.explain.WatermarkText
import io.tailrace.join.{JoinCheckpoint, KeyPartitions}
import io.tailrace.label.JoinOutput
import io.tailrace.ops.inspect.StateColumns
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

  /** The rows that stand for the key in a state with a number of partitions: one for each part.
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
        .getOrElse(
          // The text of a column that isn't one of the state's keys is taken for a part of the value before it.
          throw invalid(
            s"a value of the type ${dataType.sql} for ${column.name}; the state's key is ${AskedKey.whole(columns)}"
          )
        )
  }

  /** Spark's cast rounds, and 1.505 would be another key, 1.51. */
  private def isAsTold(value: Any, text: String): Boolean = value match {
    case rounded: Decimal => new java.math.BigDecimal(text.trim).compareTo(rounded.toJavaBigDecimal) == 0
    case _ => true
  }

}

private[why] object AskedKey {

  /** The key to look for in each of a query's joins. A join that has further key columns is left out.
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
    * @throws io.tailrace.common.TailraceAnalysisException TAILRACE_OPTION_INVALID if no join is left, or if a column
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

  /** The whole key of a join, as a user names it: `user_id=...,item_id=...`. */
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

/** The texts about a key. Its values are as Spark writes them as text; times in UTC. */
private[why] object KeyText {

  /** @param key with the part of a salted key, which isn't shown */
  def of(columns: StateColumns, key: InternalRow): Map[String, String] =
    ListMap.from(columns.key.indices.filterNot(columns.part.contains).map { i =>
      val column = columns.key(i)
      val value = Cast(Literal(key.get(i, column.dataType), column.dataType), StringType, Some("UTC")).eval()
      column.name -> String.valueOf(value)
    })

  /** The conclusion from the rows that a key has.
    *
    * @param settings of the join, in its checkpoint
    */
  def conclusion(found: Seq[StoredRow], settings: Map[String, String]): Seq[String] = {
    val (left, right) = found.partition(_.side == Side.Left)
    val others = "late (`lateLeftRows` and `lateRightRows` in the query's progress)"
    val isGrouped = settings.get("how").forall(_ != JoinOutput.Pairs.name)
    if (found.isEmpty)
      Seq(
        s"No row of this key is buffered. Its rows have not been read yet, or were emitted, or have expired, or were $others."
      )
    else if (left.isEmpty)
      Seq(
        s"No left row of this key is buffered, beside ${WatermarkText.counted(right.size.toLong, "right row")}. A left row has not been read yet, or was emitted, or was late."
      )
    else if (right.isEmpty && isGrouped)
      Seq(
        "No right row of this key is in the state: a left row is emitted without one, unless one arrives in time."
      )
    else Nil
  }
}
