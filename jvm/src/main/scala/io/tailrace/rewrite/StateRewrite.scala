package io.tailrace.rewrite

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.tailrace.{SparkSession, SparkState}
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.state._

/** Writes the state of joins anew: a Spark job for the rows, then the manifests. Nothing names the new state yet.
  *
  * @param what is done, for Spark's UI: "rescale"
  */
private[tailrace] final class StateRewrite(
    session: SparkSession,
    checkpoint: String,
    conf: Configuration,
    what: String
) {

  /** Writes the runs.
    *
    * @param isWhole whether a partition's rows have to go through one task
    */
  def split(join: JoinState, routes: RowRoutes, isWhole: Boolean = false): Seq[SplitResult] = {
    val context = session.sparkContext
    val number = join.before.layout.partitions
    // A few large partitions shouldn't leave cores idle. There may be fewer runs than that.
    val most = Math.min(StateRewrite.MostSlices, 2 * context.defaultParallelism / number)
    val slices = if (isWhole) 1 else Math.max(1, most)
    val all = for (partition <- 0 until number; slice <- 0 until slices) yield Slice(partition, slice, slices)
    val hadoopConf = context.broadcast(new SerializableConfiguration(conf))
    context.setJobDescription(s"$what operator ${join.operator} of $checkpoint")
    try
      context
        .parallelize(all, all.size)
        .map(slice => new PartitionRewrite(join, slice, routes, hadoopConf.value.value).run())
        .collect()
        .toSeq
    finally {
      context.setJobDescription(null)
      hadoopConf.destroy()
    }
  }

  /** The manifests of the new partitions, in their order. */
  def manifests(join: JoinState, results: Seq[SplitResult]): Seq[Manifest] = {
    val byPartition = results.groupBy(_.partition)
    val parts = results.flatMap(_.parts).groupBy(_.target)
    (0 until join.after.layout.partitions).map { target =>
      val sources = join.sourcesOf(target).flatMap(byPartition)
      Manifest(
        join.version,
        sources.map(_.expiredThrough).min,
        // Neighbours of one level are compacted together.
        parts.getOrElse(target, Nil).sortBy(part => (-part.run.level, part.number)).map(_.run),
        sources.map(_.operatorTime).min,
        sources.flatMap(_.lateRows).distinct.sortBy(_.version),
        // After the latest of them, all of them have what it takes.
        Option.when(sources.forall(_.amendsAfter.nonEmpty))(sources.flatMap(_.amendsAfter).max)
      )
    }
  }

  def write(join: JoinState, manifests: Seq[Manifest]): Unit =
    SparkState.sideBySide(s"tailrace-$what", StateRewrite.Threads, manifests.zipWithIndex) {
      case (manifest, target) =>
        val files = join.files(join.after, target, conf)
        files.commit(files.newManifest(join.version, join.after.id(target)), manifest, Map.empty): Unit
    }
}

private[tailrace] object StateRewrite {

  /** Manifests that are written side by side. */
  private val Threads = 32

  /** Tasks for a partition of before: as many runs as compaction leaves of a level. */
  private val MostSlices = 32

  /** Rows that the manifests name and that count. */
  def rows(manifests: Seq[Manifest]): Long =
    manifests.flatMap(_.runs).flatMap(_.sections).map(_.liveRows).sum

  def bytes(manifests: Seq[Manifest]): Long = manifests.flatMap(_.runs).map(_.length).sum
}

/** Writes some runs of a partition anew, in a task of a Spark job. It reads each row once, and writes it once. A
  * task that is lost or runs twice leaves files that no manifest names.
  */
private[rewrite] final class PartitionRewrite(
    join: JoinState,
    slice: Slice,
    routes: RowRoutes,
    conf: Configuration
) {
  import join.{after, before, version}
  import slice.partition

  def run(): SplitResult = {
    val directory = SparkState.localDirectory(s"tailrace-rewrite-${join.operator}-$partition")
    val files = join.files(before, partition, conf)
    val opened = new OutsideState(directory, files, version, before.id(partition), join.shapes)
    try split(opened)
    finally opened.close()
  }

  private def split(opened: OutsideState): SplitResult = {
    import opened.state
    val parts = Seq.newBuilder[SplitPart]
    val route = routes.of(join, partition)
    val rows = new LivingRows(state, route, join.bucketWidth, () => new SplitRuns(() => opened.newFile()))
    rows.split(slice)((number, runs) =>
      runs.foreach(parts += upload(_, state.manifest.runs(number).level, number))
    )
    val manifest = state.manifest
    SplitResult(
      partition,
      manifest.expiredThrough,
      manifest.rightExpiredThrough,
      manifest.lateRows,
      manifest.amendsAfter,
      parts.result(),
      route.counts
    )
  }

  private def upload(split: SplitRun, level: Int, number: Int): SplitPart = {
    val files = join.files(after, split.target, conf)
    val run = files.upload(split.written, StateFileNames.run(version))
    split.written.file.delete()
    val sections = split.sections.map(_.copy(schema = join.shapes.newest))
    SplitPart(split.target, run.copy(sections = sections, level = level), number)
  }
}
