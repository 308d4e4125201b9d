package io.tailrace.recursion

import org.apache.spark.ShuffleDependency
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow

/** Bounds what a hop leaves to the next one: the partitions that a union or a product adds, and the RDDs that it has come of.
  * All of them are sent to each task, and walked through by functions that call themselves.
  *
  * @param keep       has Spark keep what an RDD gives
  * @param partitions that a hop may have
  */
private[recursion] final class KeptHop(keep: RDD[InternalRow] => RDD[InternalRow], partitions: Int) {
  import KeptHop._

  def apply(rows: RDD[InternalRow]): RDD[InternalRow] = {
    val kept = keep(if (rows.getNumPartitions > partitions) rows.coalesce(partitions) else rows)
    // Its blocks alone are what it is, after its first job: an executor that is lost fails the query, or the batch.
    if (lineage(kept) > LongestLineage) kept.localCheckpoint()
    kept
  }
}

private[recursion] object KeptHop {

  /** RDDs in a row. A task of several hundred doesn't fit on the stack of the thread that sends it. */
  private val LongestLineage = 64

  /** Rows that are worth a partition of the next hop. */
  private val RowsPerPartition = 10000L

  /** How many partitions are enough for so many rows. */
  def partitionsFor(rows: Long): Int =
    Math.max(1L, Math.min(Int.MaxValue.toLong, rows / RowsPerPartition)).toInt

  /** The longest way back to a shuffle or a source. */
  private def lineage(rdd: RDD[_]): Int = 1 + rdd.dependencies.iterator
    .map {
      case _: ShuffleDependency[_, _, _] => 0
      case dependency => lineage(dependency.rdd)
    }
    .maxOption
    .getOrElse(0)
}
