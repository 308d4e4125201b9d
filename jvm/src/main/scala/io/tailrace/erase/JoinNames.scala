package io.tailrace.erase

import org.apache.spark.sql.catalyst.analysis.{Resolver, UnresolvedExtractValue}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Expression, Literal}
import org.apache.spark.sql.types.StructField

import io.tailrace.inspect.StateColumns
import io.tailrace.join.JoinCheckpoint

/** The names that a condition may have for the columns of a join's rows. A key column is there on both sides, by the
  * names of either. Any other column is that of one side; one that both sides have needs its side's name in front.
  *
  * {{{
  *   on user = uid; left columns user, page, note; right ones uid, price, note
  *
  *              left   right
  *   user, uid    x      x       page           left only
  *   key.user     x      x       left.note      left only
  *   note        ambiguous       right.user     no column
  * }}}
  *
  * @param ofLabels keys of labels that the join's rows aren't kept by: a label and its column
  */
private[erase] final class JoinNames(
    operator: Long,
    columns: StateColumns,
    ofLabels: Seq[(String, String)],
    same: Resolver
) {
  import columns.rightKeys

  /** A right row: its key, and then its other columns. */
  val right: Seq[Attribute] = (columns.key ++ columns.right).map(attribute)
  val left: Seq[Attribute] = columns.left.map(attribute)

  private val keys = columns.key.map(_.name)

  private def attribute(field: StructField): AttributeReference =
    AttributeReference(field.name, field.dataType)()

  /** A column of a row. @param key which of the key columns it is */
  private case class Found(column: Attribute, key: Option[Int])

  private def keyNamed(name: String): Option[Int] = {
    def in(names: Seq[String]) = Some(names.indexWhere(same(_, name))).filter(_ >= 0)
    in(keys).filter(keys(_) != JoinCheckpoint.Part).orElse(in(rightKeys))
  }

  private def leftKey(i: Int): Found = Found(left.find(column => same(column.name, keys(i))).get, Some(i))
  private def rightKey(i: Int): Found = Found(right(i), Some(i))

  private def ofLeft(name: String): Option[Found] =
    left.filter(_.name != JoinCheckpoint.Part).find(column => same(column.name, name)).map { column =>
      Found(column, Some(keys.indexOf(column.name)).filter(_ >= 0))
    }

  private def ofRight(name: String): Option[Found] = {
    val key = rightKeys.indexWhere(same(_, name))
    if (key >= 0) Some(rightKey(key))
    else right.drop(keys.size).find(column => same(column.name, name)).map(Found(_, None))
  }

  /** The column that a name means on each side, with the fields of it that follow. */
  private def find(parts: Seq[String]): (Option[Expression], Option[Expression]) = {
    val name = parts.head
    val (onLeft, onRight) = (ofLeft(name), ofRight(name))
    val isQualified = parts.size > 1 && onLeft.isEmpty && onRight.isEmpty
    def fields(found: Option[Found], from: Int) = found.map { of =>
      parts
        .drop(from)
        .foldLeft[Expression](of.column)((at, field) => UnresolvedExtractValue(at, Literal(field)))
    }
    if (isQualified && same(name, "left")) (fields(ofLeft(parts(1)), 2), None)
    else if (isQualified && same(name, "right")) (None, fields(ofRight(parts(1)), 2))
    else if (isQualified && same(name, "key")) {
      val key = keyNamed(parts(1))
      (fields(key.map(leftKey), 2), fields(key.map(rightKey), 2))
    } else {
      val key = keyNamed(name)
      // The events of the label have it, too, where nobody looks for it: they would stay.
      if (key.isEmpty)
        ofLabels.find { case (_, column) => same(column, name) }.foreach { case (label, column) =>
          throw EraseErrors.ofLabel(column, label, operator, keys)
        }
      val (l, r) = (onLeft.orElse(key.map(leftKey)), onRight.orElse(key.map(rightKey)))
      for (one <- l; other <- r if one.key.isEmpty || one.key != other.key)
        throw EraseErrors.ambiguous(parts.mkString("."), operator)
      (fields(l, 1), fields(r, 1))
    }
  }

  /** The columns that names mean on each side; none where a side lacks one of them. */
  def sides(names: Seq[Seq[String]]): (Option[Seq[Expression]], Option[Seq[Expression]]) = {
    val found = names.map(find)
    def all(of: Seq[Option[Expression]]) = Option.when(of.forall(_.nonEmpty))(of.flatten)
    (all(found.map(_._1)), all(found.map(_._2)))
  }

  /** The columns, for errors. */
  def text: String = {
    def shown(names: Seq[String]) = names.filter(_ != JoinCheckpoint.Part).mkString(", ")
    s"left: ${shown(left.map(_.name))}; right: ${shown(rightKeys ++ columns.right.map(_.name))}"
  }
}
