package io.tailrace.rewrite

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.state._

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
