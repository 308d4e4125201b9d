package io.tailrace.ops.rewrite

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.SparkCheckpoints
import org.apache.spark.sql.types.DataType

import io.tailrace.state._

/** A join's state that is written anew, from one set of partitions into another.
  *
  * @param state       the checkpoint's directory of all operators' state
  * @param version     of the state
  * @param keys        types of the key columns
  * @param shapes      of its rows; new runs have the newest
  * @param bucketWidth of the sections of matches, in microseconds
  */
private[tailrace] final case class JoinState(
    state: String,
    operator: Long,
    version: Long,
    keys: Seq[DataType],
    shapes: RowShapes,
    bucketWidth: Long,
    before: StateSet,
    after: StateSet
) {

  /** The files of a partition in one of the sets. */
  def files(set: StateSet, partition: Int, conf: Configuration): CheckpointFiles =
    JoinState.files(new Path(state), operator, set.layout, partition, conf)

  /** The previous partitions whose rows may go to a new one. */
  def sourcesOf(target: Int): Seq[Int] = {
    val common = JoinState.common(before.layout.partitions, after.layout.partitions)
    target % common until before.layout.partitions by common
  }
}

private[tailrace] object JoinState {

  /** Partitions of either number whose rows may be the same ones have the same remainder by it. */
  def common(before: Int, after: Int): Int = BigInt(before).gcd(after).toInt

  /** The files of a partition. */
  def files(
      state: Path,
      operator: Long,
      layout: StateLayout,
      partition: Int,
      conf: Configuration
  ): CheckpointFiles =
    new CheckpointFiles(SparkCheckpoints.partition(state, operator, partition, layout.store), conf)
}

/** One of its two sets of partitions.
  *
  * @param ids of the version in each partition, in Spark's checkpoint format 2
  */
private[tailrace] final case class StateSet(layout: StateLayout, ids: Option[Seq[String]]) {
  def id(partition: Int): Option[String] = ids.map(_(partition))
}

/** The part of a run that goes to a new partition.
  *
  * @param run    complete, and in the new partition's directory
  * @param number of the run that it comes from
  */
private[tailrace] final case class SplitPart(target: Int, run: Run, number: Int)

/** @param expiredThrough see [[Manifest]]
  * @param operatorTime   the same
  * @param lateRows       the same
  * @param amendsAfter    the same
  * @param counts         those of the partition's route
  */
private[tailrace] final case class SplitResult(
    partition: Int,
    expiredThrough: Long,
    operatorTime: Long,
    lateRows: Seq[LateRows],
    amendsAfter: Option[Long],
    parts: Seq[SplitPart],
    counts: Map[String, Long]
)

/** A part of a partition's runs: those of every `of`th number. */
private[tailrace] final case class Slice(partition: Int, number: Int, of: Int)
