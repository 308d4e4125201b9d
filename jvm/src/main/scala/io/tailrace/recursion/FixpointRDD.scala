package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.{OneToOneDependency, Partition, TaskContext}

/** The recursion of each task's own rows, with no job and no exchange for a hop: op's RDD is computed again for each
  * generation, on the rows of the one before.
  *
  * @param op on an [[ArgumentRDD]]; as many partitions as the input
  */
private[recursion] final class FixpointRDD(
    private var input: RDD[InternalRow],
    private var op: RDD[InternalRow],
    reads: Int,
    rules: FixpointRules
) extends RDD[InternalRow](
      input.sparkContext,
      Seq(new OneToOneDependency(input), new OneToOneDependency(op))
    ) {

  override protected def getPartitions: Array[Partition] =
    input.partitions.zip(op.partitions).map { case (i, o) => FixpointPartition(i.index, i, o) }

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val partition = split.asInstanceOf[FixpointPartition]
    val body = op
    new Generations(
      split.index,
      input.iterator(partition.input, context),
      (hop, rows) => ArgumentRDD.during(hop, rows)(body.iterator(partition.op, context)),
      reads,
      rules,
      context
    )
  }

  override def clearDependencies(): Unit = {
    super.clearDependencies()
    input = null
    op = null
  }
}

private[recursion] final case class FixpointPartition(index: Int, input: Partition, op: Partition)
    extends Partition
