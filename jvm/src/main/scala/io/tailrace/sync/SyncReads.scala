package io.tailrace.sync

import scala.jdk.CollectionConverters._

import org.apache.spark.util.CollectionAccumulator

import io.tailrace.driver.{PartitionAccumulator, PartitionValue}

/** What one task has read of a side. Of two runs over a partition the one of fewer rows has stopped sooner.
  *
  * @param rows those without a time, too
  */
private[sync] final case class TaskRead(rows: Long, partitions: Seq[PartitionRead])
    extends PartitionValue[TaskRead] {
  override def max(other: TaskRead): TaskRead = if (other.rows > rows) other else this
}

/** What the tasks of a batch have told the driver. A sink may run a batch's tasks several times. */
private[sync] object SyncReads {

  /** Of the runs over a partition of a batch the furthest counts. */
  def of(told: Seq[PartitionAccumulator[TaskRead]]): Seq[PartitionRead] =
    told
      .flatMap(_.value)
      .groupMapReduce(_._1)(_._2)(_ max _)
      .values
      .toSeq
      .flatMap(_.partitions)
      .groupMapReduce(_.name)(identity)(plus)
      .values
      .toSeq
      .sortBy(_.name)

  /** A partition may be read by several tasks. */
  private def plus(one: PartitionRead, other: PartitionRead): PartitionRead =
    PartitionRead(
      one.name,
      Math.max(one.latest, other.latest),
      one.rows + other.rows,
      one.jumps + other.jumps,
      one.late + other.late,
      one.future + other.future,
      one.formerly
    )

  /** What a state partition holds is told when its version is committed: the last version is the one that is there. */
  def held(told: Seq[CollectionAccumulator[SyncHeld]]): Seq[SyncHeld] =
    told.flatMap(_.value.asScala).map(held => held.partition -> held).toMap.values.toSeq
}
