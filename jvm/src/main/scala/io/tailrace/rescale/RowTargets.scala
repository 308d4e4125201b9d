package io.tailrace.rescale

import java.util.Arrays

import org.apache.spark.sql.types.DataType

import io.tailrace.join.KeyPartitions
import io.tailrace.rewrite.JoinState
import io.tailrace.state.RowLayout

/** The partitions that the rows of one partition belong to when there are `after` instead of `before`: those
  * to which Spark's shuffle will send later rows of their keys.
  *
  * {{{
  *   4 to 16    partition 1 ──> 1 5 9 13          one source for each new partition
  *   4 to 6     partition 1 ──> 1 3 5             two sources for each
  *   4 to 7     partition 1 ──> 0 1 2 3 4 5 6     four
  * }}}
  *
  * @param keys types of the key columns
  */
private[rescale] final class RowTargets(keys: Seq[DataType], partition: Int, before: Int, after: Int) {
  private val partitions = new KeyPartitions(keys, Seq(before, after))
  private val common = JoinState.common(before, after)

  /** The key columns' types, for errors. */
  def types: String = keys.map(_.sql).mkString(", ")

  /** Partitions of before whose rows come into one new partition. */
  val sources: Int = before / common

  private val reached = partition % common until after by common
  private var lastKey = Array.emptyByteArray
  private var last = -1

  /** Rows without a key match nothing, and may be anywhere. They are spread.
    *
    * @throws RowTargets.ElsewhereException if the row doesn't belong to this partition
    */
  def of(base: AnyRef, at: Long): Int =
    if (RowLayout.keyLength(base, at) == 0)
      reached(java.lang.Long.remainderUnsigned(RowLayout.seq(base, at), reached.size.toLong).toInt)
    else {
      val key = RowLayout.keyBytes(base, at)
      if (last < 0 || !Arrays.equals(key, lastKey)) {
        val found = partitions.of(key)
        if (found.getInt(0) != partition) throw new RowTargets.ElsewhereException(found.getInt(0))
        lastKey = key
        last = found.getInt(1)
      }
      last
    }

  /** A sequence number for a row that comes together with rows of other partitions. Those of each version
    * take turns, so that the order within a partition stays.
    *
    * @return none if there are too many rows to tell all of them apart
    */
  def seq(of: Long): Option[Long] = {
    val inBatch = (of & RowTargets.InBatch) * sources + partition / common
    Option.when(inBatch <= RowTargets.InBatch)((of & ~RowTargets.InBatch) | inBatch)
  }
}

private[rescale] object RowTargets {

  /** The bits of a sequence number that count the rows of a batch. */
  private val InBatch = (1L << 32) - 1

  final class ElsewhereException(val partition: Int) extends Exception
}
