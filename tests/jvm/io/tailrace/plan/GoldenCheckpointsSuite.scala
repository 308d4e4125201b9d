package io.tailrace.plan

import java.io.File

import io.tailrace.testkit.{Campaign, SparkSuite}

/** A query that restarts from a checkpoint of an earlier release gives the rows that the release would give.
  */
final class GoldenCheckpointsSuite extends SparkSuite {
  private def archives(release: File) = release.listFiles.map(_.getName).toSet

  test("each release has left a checkpoint of each query; between releases, where a format has changed") {
    def archivesOf(queries: Seq[GoldenQuery]) =
      queries.map(GoldenCheckpoints.archive(GoldenCheckpoints.root, _).getName).toSet
    val names = archivesOf(GoldenQueries.all)
    val all = names ++ archivesOf(GoldenQueries.later)
    val (between, full) = GoldenCheckpoints.releases.partition(_.getName.contains('-'))
    assert(full.nonEmpty && full.forall(archives(_) == names))
    assert(between.forall(release => archives(release).nonEmpty && archives(release).subsetOf(all)))
  }

  // A query's newest checkpoint is among the tests, and those of before are a campaign.
  private val newest = GoldenCheckpoints.archives.map { case (query, archive) => query.name -> archive }.toMap

  GoldenCheckpoints.archives.foreach { case (query, archive) =>
    val tags = if (newest(query.name) == archive) Nil else Seq(Campaign)
    test(s"release ${archive.getParentFile.getName}: ${query.name}", tags: _*) {
      withConf(query.settings: _*) {
        withDirectory { root =>
          val left = GoldenCheckpoints.unpack(archive, root)
          assert(left.whole.size > left.before.values.map(_.size).sum)
          assert(query.goOn(spark, root, left.before) == left.whole)
        }
      }
    }
  }
}
