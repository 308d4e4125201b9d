package io.tailrace.plan

import java.io.File

import io.tailrace.testkit.SparkSuite

/** A query that restarts from a checkpoint of an earlier release gives the rows that the release would give.
  */
final class GoldenCheckpointsSuite extends SparkSuite {
  private val releases = GoldenCheckpoints.root.listFiles.toSeq.filter(_.isDirectory).sorted

  private def archives(release: File) = release.listFiles.map(_.getName).toSet

  test("each release has left a checkpoint of each query; between releases, where a format has changed") {
    val names = GoldenQueries.all.map(GoldenCheckpoints.archive(GoldenCheckpoints.root, _).getName).toSet
    val (between, full) = releases.partition(_.getName.contains('-'))
    assert(full.nonEmpty && full.forall(archives(_) == names))
    assert(between.forall(release => archives(release).nonEmpty && archives(release).subsetOf(names)))
  }

  for {
    release <- releases
    query <- GoldenQueries.all.filter(GoldenCheckpoints.archive(release, _).exists)
  } {
    test(s"release ${release.getName}: ${query.name}") {
      withConf(query.settings: _*) {
        withDirectory { root =>
          val left = GoldenCheckpoints.unpack(GoldenCheckpoints.archive(release, query), root)
          assert(left.whole.size > left.before.values.map(_.size).sum)
          assert(query.goOn(spark, root, left.before) == left.whole)
        }
      }
    }
  }
}
