package io.tailrace.replay

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/** Small numbers for the partitions of topics that origins are read from. A table of marks has many origins
  * and few such partitions.
  */
private[replay] final class Homes {
  private val names = mutable.ArrayBuffer.empty[String]
  private val numbers = mutable.HashMap.empty[String, Int]

  def size: Int = names.size

  /** @param home the number in a table's entry; negative if it is unknown */
  def name(home: Int): Option[String] = Option.when(home >= 0)(names(home))

  /** @return -1 if there is none of this name */
  def find(name: String): Int = numbers.getOrElse(name, Homes.Unknown)

  /** The number of this name. A new name gets a new number. */
  def of(name: String): Int = numbers.getOrElseUpdate(
    name, {
      names += name
      names.size - 1
    }
  )

  def copy(): Homes = {
    val same = new Homes
    names.foreach(same.of)
    same
  }
}

private[replay] object Homes {

  /** The home of a mark that an early version has written. */
  val Unknown: Int = -1
}

/** Tells a task which partition its rows are read from, whenever that changes.
  *
  * @param columns that name the partition
  * @param oneOnly whether all rows of the task are of one partition, as when a task reads one partition of
  *                Kafka
  */
private[replay] final class RecordHomes(columns: Seq[Attribute], all: Seq[Attribute], oneOnly: Boolean)(
    enter: String => Unit
) {
  private lazy val ordering = RowOrdering.create(columns.map(SortOrder(_, Ascending)), all)
  private val fields = columns.map(BindReferences.bindReference[Expression](_, all))
  private var current: UnsafeRow = _

  def of(row: UnsafeRow): Unit =
    if (current == null || (!oneOnly && ordering.compare(current, row) != 0)) {
      current = row.copy()
      enter(fields.map(text(_, current)).mkString("/"))
    }

  /** Two values never have the same text, and neither have two lists of values. */
  private def text(field: Expression, row: InternalRow): String = (field.eval(row), field.dataType) match {
    case (null, _) => "\\N"
    case (bytes: Array[Byte], _) => java.util.HexFormat.of.formatHex(bytes)
    case (value, dataType) =>
      val words = Cast(Literal(value, dataType), StringType, Some("UTC")).eval().toString
      words.replace("\\", "\\\\").replace("/", "\\/")
  }
}
