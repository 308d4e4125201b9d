package io.tailrace.why

import scala.collection.immutable.ListMap

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Cast, Literal}
import org.apache.spark.sql.types.StringType

import io.tailrace.driver.WatermarkText
import io.tailrace.inspect.StateColumns
import io.tailrace.join.Side
import io.tailrace.label.JoinOutput

/** What is said of a key. Its values are as Spark writes them as text; times in UTC. */
private[why] object KeyText {

  /** @param key with the part of a hot key, which isn't shown */
  def of(columns: StateColumns, key: InternalRow): Map[String, String] =
    ListMap.from(columns.key.indices.filterNot(columns.part.contains).map { i =>
      val column = columns.key(i)
      val value = Cast(Literal(key.get(i, column.dataType), column.dataType), StringType, Some("UTC")).eval()
      column.name -> String.valueOf(value)
    })

  /** What follows from the rows that a key has.
    *
    * @param settings of the join, in its checkpoint
    */
  def conclusion(found: Seq[StoredRow], settings: Map[String, String]): Seq[String] = {
    val (left, right) = found.partition(_.side == Side.Left)
    val others = "late (`lateLeftRows` and `lateRightRows` in the query's progress)"
    val isGrouped = settings.get("how").forall(_ != JoinOutput.Pairs.name)
    if (found.isEmpty)
      Seq(
        s"Nothing of this key waits. Its rows have not been read yet, or have come out or expired already, or were $others."
      )
    else if (left.isEmpty)
      Seq(
        s"No left row of this key waits, ${WatermarkText.counted(right.size.toLong, "right row")} does. A left row has not been read yet, or has come out, or was late."
      )
    else if (right.isEmpty && isGrouped)
      Seq(
        "No right row of this key is in the state: a left row comes out without one, unless it still comes."
      )
    else Nil
  }
}
