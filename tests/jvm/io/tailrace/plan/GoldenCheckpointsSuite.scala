package io.tailrace.plan

import io.tailrace.testkit.SparkSuite

/** A query that restarts from a checkpoint of an earlier release gives the rows that the release would give.
  */
final class GoldenCheckpointsSuite extends SparkSuite {
  private val releases = GoldenCheckpoints.root.listFiles.toSeq.filter(_.isDirectory).sorted

  test("each release has left a checkpoint of each query") {
    assert(releases.nonEmpty)
    val names = GoldenQueries.all.map(GoldenCheckpoints.archive(GoldenCheckpoints.root, _).getName).toSet
    releases.foreach(release => assert(release.listFiles.map(_.getName).toSet == names, release))
  }

  for (release <- releases; query <- GoldenQueries.all) {
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
