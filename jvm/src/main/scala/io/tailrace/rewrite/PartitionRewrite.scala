package io.tailrace.rewrite

import java.io.File
import java.nio.file.Files

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

  private val directory = SparkState.localDirectory(s"tailrace-rewrite-${join.operator}-$partition")

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
    val route = routes.of(join, partition)
    val rows = new LivingRows(state, route, join.bucketWidth, () => new SplitRuns(() => newFile()))
    rows.split(slice)((number, runs) =>
      runs.foreach(parts += upload(_, state.manifest.runs(number).level, number))
    )
    val manifest = state.manifest
    SplitResult(
      partition,
      manifest.expiredThrough,
      manifest.rightExpiredThrough,
      parts.result(),
      route.counts
    )
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
