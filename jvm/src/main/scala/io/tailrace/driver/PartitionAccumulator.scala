package io.tailrace.driver

import org.apache.spark.util.AccumulatorV2

/** What a task has found out about its partition of a batch. */
trait PartitionValue[T] {

  /** The one of two runs over the same partition that has seen more of it. Of equal ones either. */
  def max(other: T): T
}

/** Brings what tasks have found out about their partitions to the driver, once for each partition.
  *
  * A function of foreachBatch may read a batch as often as it likes, Spark runs a slow task twice, and repeats those whose
  * shuffle files are lost: an accumulator that adds up would count a row each time. Here the partition is a key, and of
  * several runs over one the furthest counts. An action that takes only some rows, such as `limit`, gives at most what a
  * whole one gives.
  *
  * {{{
  *   rows.count()   partition 0: 4 rows, 1: 3 rows  ┐
  *   rows.limit(2)  partition 0: 2 rows             ├─>  0: 4 rows, 1: 3 rows
  *   rows.write     partition 0: 4 rows, 1: 3 rows  ┘
  * }}}
  *
  * The key is the index of the operator's own partition, as `mapPartitionsWithIndex` and generated code (`partitionIndex`)
  * have it: that of the task is another one above a union or a coalesce.
  */
final class PartitionAccumulator[T <: PartitionValue[T]] extends AccumulatorV2[(Int, T), Map[Int, T]] {
  // Immutable: a heartbeat reads it in another thread.
  @volatile private var values = Map.empty[Int, T]

  override def isZero: Boolean = values.isEmpty
  override def reset(): Unit = values = Map.empty
  override def value: Map[Int, T] = values

  override def add(more: (Int, T)): Unit =
    values = values.updatedWith(more._1)(known => Some(known.fold(more._2)(_.max(more._2))))

  override def merge(other: AccumulatorV2[(Int, T), Map[Int, T]]): Unit = other.value.foreach(add)

  override def copy(): PartitionAccumulator[T] = {
    val same = new PartitionAccumulator[T]
    same.values = values
    same
  }
}

object PartitionAccumulator {

  /** The key of what the driver itself adds to a batch. */
  val Driver: Int = -1
}
