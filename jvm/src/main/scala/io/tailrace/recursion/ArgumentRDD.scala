package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.{OneToOneDependency, Partition, SparkContext, TaskContext}

/** The rows of the generation that the task is at. Op's plan is made on this once a micro-batch, and computed once a
  * generation.
  */
private[recursion] final class ArgumentRDD(context: SparkContext, partitions: Int)
    extends RDD[InternalRow](context, Nil) {
  override protected def getPartitions: Array[Partition] = Array.tabulate(partitions)(IndexedPartition)

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    ArgumentRDD.current.rows()
}

private[recursion] final case class IndexedPartition(index: Int) extends Partition

private[recursion] object ArgumentRDD {
  private final case class Generation(hop: Int, rows: () => Iterator[InternalRow])

  // A task computes its partitions in its own thread, and others at the same time in theirs.
  private val generation = new ThreadLocal[Generation]

  /** Computes something with `rows` for the argument: they are asked for once for each time that op reads it.
    *
    * @param hop that op's results will be of
    */
  def during[T](hop: Int, rows: () => Iterator[InternalRow])(compute: => T): T = {
    val outer = generation.get
    generation.set(Generation(hop, rows))
    try compute
    finally generation.set(outer)
  }

  /** The hop that op is being computed for. */
  def hop: Int = current.hop

  private def current: Generation = {
    val found = generation.get
    require(found != null, "op's argument is read outside of the recursion")
    found
  }

  /** Whether each partition of an RDD is computed of the argument's partition of the same number, and at once: then a task can
    * give it its own rows. A cartesian product or a coalesce has partitions of several, and may have as many in the end.
    */
  def isComputedInPlace(rdd: RDD[_]): Boolean = rdd.isInstanceOf[ArgumentRDD] || rdd.dependencies.forall {
    case same: OneToOneDependency[_] => isComputedInPlace(same.rdd)
    case other => !reads(other.rdd)
  }

  private def reads(rdd: RDD[_]): Boolean =
    rdd.isInstanceOf[ArgumentRDD] || rdd.dependencies.exists(dependency => reads(dependency.rdd))
}
