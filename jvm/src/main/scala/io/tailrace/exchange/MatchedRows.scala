package io.tailrace.exchange

import java.util.Arrays

import org.apache.hadoop.conf.Configuration
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeProjection}
import org.apache.spark.sql.types._

import io.tailrace.inspect.{StateColumns, StateDecoder}
import io.tailrace.rewrite.{JoinState, MatchesOfLefts}
import io.tailrace.state._

/** The matches that eager matching has found for left rows that wait, in a task: with the left row, and the right row as
  * it came, of which the state may have nothing else any more.
  */
private[exchange] final class MatchedRows(
    join: JoinState,
    columns: StateColumns,
    partition: Int,
    conf: Configuration
) {
  private val opened = new PartitionState(join, partition, conf)
  import opened.state

  private lazy val rights: Array[Long] = {
    val found = Array.newBuilder[Long]
    opened.sections(StoreKind.RightKeySorted).foreach(_.foreachRow(found += _.seq))
    val all = found.result()
    Arrays.sort(all)
    all
  }

  def iterator: Iterator[InternalRow] = {
    val number = partition
    val matches = new MatchesOfLefts(state)
    TaskContext.get().addTaskCompletionListener[Unit](_ => matches.close())
    val decoder = new StateDecoder(columns)
    val right = UnsafeProjection.create((columns.key ++ columns.right).map(_.dataType).toArray[DataType])
    new Iterator[InternalRow] {
      override def hasNext: Boolean = !matches.isEmpty
      override def next(): InternalRow = {
        val (of, joined, whole) = (matches.sections.head, matches.joined, matches.left)
        val seq = MatchKey.rightSeq(joined.base, joined.at)
        val value = decoder.right(of, joined)
        val row = new GenericInternalRow(
          Array[Any](
            number,
            seq,
            Arrays.binarySearch(rights, seq) >= 0,
            decoder.left(of, whole).copy(),
            right(new JoinedRow(decoder.key(of, whole), value))
          )
        )
        matches.drop()
        row.copy()
      }
    }
  }
}

private[exchange] object MatchedRows {

  /** @param right its columns, those of the key first */
  def schema(left: StructType, right: StructType): StructType = new StructType()
    .add("partition", IntegerType, nullable = false)
    .add("right_seq", LongType, nullable = false)
    .add("right_in_state", BooleanType, nullable = false)
    .add("left", left)
    .add("right", right)
}
