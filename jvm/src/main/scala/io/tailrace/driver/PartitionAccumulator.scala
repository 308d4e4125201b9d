package io.tailrace.driver

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.util.AccumulatorV2

/** A result of a task over its partition of a batch. */
trait PartitionValue[T] {

  /** Chooses between two tasks' results over one partition: gives the one that has seen more rows. */
  def max(other: T): T
}

/** Brings the results of tasks to the driver, one for each partition.
  *
  * A function of foreachBatch may read a batch several times. Spark runs a slow task twice, and tasks whose
  * shuffle files are lost. An accumulator that adds up would count each row several times. This one has the
  * partition as a key, and keeps the result of the task that has seen the most. An action that takes only
  * some rows, such as `limit`, gives at most what an action over all rows gives.
  *
  * {{{
  *   rows.count()   partition 0: 4 rows, 1: 3 rows  ┐
  *   rows.limit(2)  partition 0: 2 rows             ├─>  0: 4 rows, 1: 3 rows
  *   rows.write     partition 0: 4 rows, 1: 3 rows  ┘
  * }}}
  *
  * The key is the index of the operator's own partition (`partitionIndex` in generated code). Above a union
  * or a coalesce the task's partition is another one.
  */
final class PartitionAccumulator[T <: PartitionValue[T]] extends AccumulatorV2[(Int, T), Map[Int, T]] {
  // Immutable, because a heartbeat reads it in another thread.
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

  /** The key of a result that the driver itself adds. */
  val Driver: Int = -1

  /** A new one, which Spark knows. */
  def registered[T <: PartitionValue[T]](context: SparkContext): PartitionAccumulator[T] = {
    val made = new PartitionAccumulator[T]
    context.register(made)
    made
  }
}

/** An operator whose tasks report their observations of a micro-batch to the driver. */
trait TellsDriver extends SparkPlan {

  /** True if the operator's tasks have run. Asked on the driver, when the sink is done with a batch. */
  def hasTold: Boolean
}

/** An operator that keeps rows from batch to batch, and knows which have not been emitted yet. */
trait HeldWork {

  /** Its name in the query. */
  def workName: String

  /** Its description for people: names of columns, and no values. */
  def words: String

  /** The event time of the oldest buffered row in each state partition, in microseconds, if it has one.
    * None at all if the operator doesn't know it: then its progress is that of Spark's propagation of
    * watermarks. Called on the driver, after the tasks of a batch.
    */
  def oldestWaiting: Option[Map[Int, Option[Long]]]
}

/** A sink that may report its own progress to a watermark server. */
trait ReportingSink {
  def reports: Boolean
}
