package io.tailrace.ops.rewrite

import java.util.Arrays

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{SparkCheckpoints, SparkState}
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

  /** A previous partition, which a task of a command reads. */
  def open(partition: Int, conf: Configuration): OutsideState = new OutsideState(
    SparkState.localDirectory(s"tailrace-command-$operator-$partition"),
    files(before, partition, conf),
    version,
    before.id(partition),
    shapes
  )

  /** The manifests of the previous partitions. */
  def manifests(conf: Configuration): Seq[Manifest] = {
    val found = new Array[Manifest](before.layout.partitions)
    SparkState.sideBySide("tailrace-manifests", JoinState.Threads, found.indices) { partition =>
      found(partition) = files(before, partition, conf).readManifest(version, before.id(partition))
    }
    found.toSeq
  }

  /** The previous partitions whose rows may go to a new one. */
  def sourcesOf(target: Int): Seq[Int] = {
    val common = JoinState.common(before.layout.partitions, after.layout.partitions)
    target % common until before.layout.partitions by common
  }
}

private[tailrace] object JoinState {

  /** Manifests that are read or written side by side. */
  val Threads = 32

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

/** @param manifest the previous partition's, without its runs
  * @param counts   those of the partition's route
  */
private[tailrace] final case class SplitResult(
    partition: Int,
    manifest: Manifest,
    parts: Seq[SplitPart],
    counts: Map[String, Long]
)

/** The facts in partitions of a join's state besides their rows. */
private[tailrace] final class StateFacts(manifests: Seq[Manifest]) {

  /** Results of left rows up to this time were emitted in all partitions. */
  def expiredThrough: Long = manifests.map(_.expiredThrough).min
  def operatorTime: Long = manifests.map(_.rightExpiredThrough).min

  /** The latest time of all partitions: after it all can amend. */
  def amendsAfter: Option[Long] =
    Option.when(manifests.forall(_.amendsAfter.nonEmpty))(manifests.flatMap(_.amendsAfter).max)

  /** The examples that all of them have emitted. */
  def balance: Option[BalanceCounts] = BalanceCounts.merged(manifests.map(_.balance))

  /** Late rows that left rows in the state don't get. */
  def lateRows: Seq[LateRows] = manifests.flatMap(_.lateRows).distinct.sortBy(_.version)

  /** True if left rows that were emitted may be amended. */
  def hasEmitted: Boolean = manifests.exists { manifest =>
    val after = manifest.amendsAfter.getOrElse(Long.MinValue)
    manifest.runs.exists(_.sections.exists(of => of.kind == StoreKind.LeftOut && of.maxTime > after))
  }
}

/** A part of a partition's runs: those of every `of`th number. */
private[tailrace] final case class Slice(partition: Int, number: Int, of: Int)

/** The sequence numbers of some rows. */
private[tailrace] final class RowNumbers private (sorted: Array[Long]) {
  def has(seq: Long): Boolean = Arrays.binarySearch(sorted, seq) >= 0
}

private[tailrace] object RowNumbers {

  /** Those of the rows of a store that count.
    *
    * @param isOne whether a row is one of them
    */
  def of(state: LoadedState, kind: StoreKind)(isOne: (LiveSection, RunCursor) => Boolean): RowNumbers = {
    val found = Array.newBuilder[Long]
    val living = LivingRows.of(state)
    val sections = state.sections.filter(_.section.kind == kind)
    LiveSection.prepare(sections)
    sections.foreach(live => living.foreachRow(live)(row => if (isOne(live, row)) found += row.seq))
    val sorted = found.result()
    Arrays.sort(sorted)
    new RowNumbers(sorted)
  }
}
