package io.tailrace.rescale

import java.io.File
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{SparkCheckpoints, SparkState}
import org.apache.spark.sql.types.DataType

import io.tailrace.state._

/** A join's state whose number of partitions changes.
  *
  * @param state       the checkpoint's directory of all operators' state
  * @param version     of the state
  * @param keys        types of the key columns
  * @param shapes      of its rows; new runs have the newest
  * @param bucketWidth see [[LivingRows]]
  */
private[rescale] final case class JoinState(
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
}

private[rescale] object JoinState {

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
private[rescale] final case class StateSet(layout: StateLayout, ids: Option[Seq[String]]) {
  def id(partition: Int): Option[String] = ids.map(_(partition))
}

/** What a run gives to a new partition.
  *
  * @param run    complete, and in the new partition's directory
  * @param number of the run that it comes from
  */
private[rescale] final case class SplitPart(target: Int, run: Run, number: Int)

/** @param expiredThrough see [[Manifest]]
  * @param operatorTime   the same
  */
private[rescale] final case class SplitResult(
    partition: Int,
    expiredThrough: Long,
    operatorTime: Long,
    parts: Seq[SplitPart]
)

/** A part of a partition's runs: those of every `of`th number. */
private[rescale] final case class Slice(partition: Int, number: Int, of: Int)

/** Splits some runs of a partition, in a task of a Spark job. It reads each row once, and writes it once. A task
  * that is lost or runs twice leaves files that no manifest names.
  */
private[rescale] final class PartitionSplit(join: JoinState, slice: Slice, conf: Configuration) {
  import join.{after, before, version}
  import slice.partition

  private val targets =
    new RowTargets(join.keys, partition, before.layout.partitions, after.layout.partitions)
  private val directory = SparkState.localDirectory(s"tailrace-rescale-${join.operator}-$partition")

  def run(): SplitResult =
    try {
      val files = join.files(before, partition, conf)
      val state = LoadedState.outside(files, version, before.id(partition), () => newFile(), join.shapes)
      state.acquire()
      try split(state)
      finally state.release()
    } finally {
      Option(directory.listFiles).toSeq.flatten.foreach(_.delete())
      directory.delete(): Unit
    }

  private def split(state: LoadedState): SplitResult = {
    val parts = Seq.newBuilder[SplitPart]
    val rows = new LivingRows(state, targets, join.bucketWidth, () => new SplitRuns(() => newFile()))
    rows.split(slice)((number, runs) =>
      runs.foreach(parts += upload(_, state.manifest.runs(number).level, number))
    )
    SplitResult(partition, state.manifest.expiredThrough, state.manifest.rightExpiredThrough, parts.result())
  }

  private def newFile(): File = Files.createTempFile(directory.toPath, "", ".run").toFile

  private def upload(split: SplitRun, level: Int, number: Int): SplitPart = {
    val files = join.files(after, split.target, conf)
    val run = files.upload(split.file, StateFileNames.run(version))
    split.file.delete()
    val sections = split.sections.map(_.copy(schema = join.shapes.newest))
    SplitPart(split.target, run.copy(sections = sections, level = level), number)
  }
}
