package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.{Partition, SparkContext, TaskContext}

/** The rows of the generation that the task is at. Op's plan is made on this once a micro-batch, and computed once a
  * generation.
  */
private[recursion] final class ArgumentRDD(context: SparkContext, partitions: Int)
    extends RDD[InternalRow](context, Nil) {
  override protected def getPartitions: Array[Partition] = Array.tabulate(partitions)(IndexedPartition)

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = ArgumentRDD.read()
}

private[recursion] final case class IndexedPartition(index: Int) extends Partition

private[recursion] object ArgumentRDD {
  // A task computes its partitions in its own thread, and others at the same time in theirs.
  private val generation = new ThreadLocal[() => Iterator[InternalRow]]

  /** Computes something with `rows` for the argument: they are asked for once for each time that op reads it. */
  def during[T](rows: () => Iterator[InternalRow])(compute: => T): T = {
    val outer = generation.get
    generation.set(rows)
    try compute
    finally generation.set(outer)
  }

  private def read(): Iterator[InternalRow] = {
    val rows = generation.get
    require(rows != null, "op's argument is read outside of the recursion")
    rows()
  }
}
