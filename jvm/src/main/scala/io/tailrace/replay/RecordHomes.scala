package io.tailrace.replay

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/** Tells a task which partition its rows are read from, whenever that changes.
  *
  * @param columns  that say so
  * @param oneOnly  all rows of the task are of one partition, as those of Kafka that come as they stand there
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

  /** Two values never have one text, nor have two lists of them. */
  private def text(field: Expression, row: InternalRow): String = (field.eval(row), field.dataType) match {
    case (null, _) => "\\N"
    case (bytes: Array[Byte], _) => java.util.HexFormat.of.formatHex(bytes)
    case (value, dataType) =>
      val words = Cast(Literal(value, dataType), StringType, Some("UTC")).eval().toString
      words.replace("\\", "\\\\").replace("/", "\\/")
  }
}
