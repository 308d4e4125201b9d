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

  // A query's newest checkpoint is among the tests, and those of before are a campaign. So are those that Tailrace
  // has left on an earlier minor version of Spark.
  private val (onEarlierSpark, ofReleases) = GoldenCheckpoints.archives.partition { case (_, archive) =>
    archive.getParentFile.getName.contains("-spark")
  }
  private val newest = ofReleases.map { case (query, archive) => query.name -> archive }.toMap

  test("each capability has left a checkpoint on the earliest minor version of Spark") {
    val capabilities = Seq("lazy join", "synced join", "replays", "recursion", "training examples", "windows")
    capabilities.foreach(of => assert(onEarlierSpark.exists(_._1.name.contains(of)), of))
  }

  GoldenCheckpoints.archives.foreach { case (query, archive) =>
    val isTest = newest.get(query.name).contains(archive) || onEarlierSpark.exists(_._2 == archive)
    val tags = if (isTest) Nil else Seq(Campaign)
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
