package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.{NarrowDependency, Partition, SparkContext, TaskContext}

/** The results of all hops: partition i has partition i of each of them. Spark's union would have partitions, and tasks, for
  * each hop.
  */
private[recursion] final class HopsRDD(context: SparkContext, private var hops: Seq[RDD[InternalRow]])
    extends RDD[InternalRow](context, hops.map(new PartitionOfSameNumber(_))) {

  override protected def getPartitions: Array[Partition] =
    Array.tabulate(hops.iterator.map(_.getNumPartitions).maxOption.getOrElse(0)) { i =>
      HopsPartition(i, hops.map(hop => Option.when(i < hop.getNumPartitions)(hop.partitions(i))))
    }

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val parts = split.asInstanceOf[HopsPartition].parts
    hops.iterator.zip(parts).flatMap { case (hop, part) =>
      part.fold(Iterator.empty[InternalRow])(hop.iterator(_, context))
    }
  }

  override def clearDependencies(): Unit = {
    super.clearDependencies()
    hops = null
  }
}

private[recursion] final case class HopsPartition(index: Int, parts: Seq[Option[Partition]]) extends Partition

private final class PartitionOfSameNumber(hop: RDD[InternalRow]) extends NarrowDependency[InternalRow](hop) {
  override def getParents(partition: Int): Seq[Int] =
    if (partition < hop.getNumPartitions) Seq(partition) else Nil
}
