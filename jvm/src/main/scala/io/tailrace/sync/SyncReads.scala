package io.tailrace.sync

import scala.jdk.CollectionConverters._

import org.apache.spark.util.CollectionAccumulator

/** What one task has read of a side.
  *
  * @param task its number
  */
private[sync] final case class TaskRead(task: Int, partitions: Seq[PartitionRead])

/** What the tasks of a batch have told the driver. A sink may run a batch's tasks several times: of those of one number, the
  * last one counts.
  */
private[sync] object SyncReads {

  def of(told: Seq[CollectionAccumulator[TaskRead]]): Seq[PartitionRead] =
    last(told)(_.task)
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

  def held(told: Seq[CollectionAccumulator[SyncHeld]]): Seq[SyncHeld] = last(told)(_.partition)

  private def last[T](told: Seq[CollectionAccumulator[T]])(number: T => Int): Seq[T] =
    told.flatMap(_.value.asScala).map(t => number(t) -> t).toMap.values.toSeq
}
