package io.tailrace.join

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.types.DataType

import io.tailrace.state.KeyDecoder

/** The state partition of a key: that to which Spark's shuffle sends its rows.
  *
  * @param keys    types of the key columns
  * @param numbers of partitions, each of which sends a key elsewhere
  */
private[tailrace] final class KeyPartitions(keys: Seq[DataType], numbers: Seq[Int]) {
  private val decoder = new KeyDecoder(keys.toArray)
  private val ids = {
    val columns = keys.zipWithIndex.map { case (dataType, i) => BoundReference(i, dataType, nullable = true) }
    UnsafeProjection.create(numbers.map(HashPartitioning(columns, _).partitionIdExpression))
  }

  /** @param key of a row, whole
    * @return the partition by each of the numbers; the row is used again
    * @throws RuntimeException if the key has other bytes than keys of these types
    */
  def of(key: Array[Byte]): InternalRow = ids(decoder.decodeWhole(key))
}
