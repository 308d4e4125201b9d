package io.tailrace.plan

import java.io.File

import io.tailrace.testkit.SparkSuite

/** A query that goes on from a checkpoint of an earlier release gives what it would have given without the upgrade. */
final class GoldenCheckpointsSuite extends SparkSuite {
  private val releases = GoldenCheckpoints.root.listFiles.toSeq.filter(_.isDirectory).sorted

  test("each release has left a checkpoint of each query") {
    assert(releases.nonEmpty)
    val archives = releases.map(release => release.getName -> release.listFiles.map(_.getName).toSet)
    val names = DamagedQueries.golden.map(GoldenCheckpoints.archive(GoldenCheckpoints.root, _).getName).toSet
    archives.foreach { case (release, found) => assert(found == names, release) }
  }

  for (release <- releases; query <- DamagedQueries.golden) {
    test(s"release ${release.getName}: ${query.name}") {
      withConf(query.settings: _*) {
        withDirectory { root =>
          val old = new File(root, "old")
          val before = GoldenCheckpoints.unpack(GoldenCheckpoints.archive(release, query), old)
          val upgraded = new DamagedCheckpoint(spark, query, old, before)
          upgraded.attempt().foreach(throw _)

          assert(upgraded.output.size > before.values.map(_.size).sum)
          assert(upgraded.output == expected(query, root))
        }
      }
    }
  }

  /** All that comes out of a checkpoint that this release has made itself. */
  private def expected(query: DamagedQuery, root: File): Seq[String] = {
    val fresh = new File(root, "fresh")
    val before = new DamagedCheckpoint(spark, query, fresh).write(new File(root, "died"))
    val whole = new DamagedCheckpoint(spark, query, fresh, before)
    whole.attempt().foreach(throw _)
    whole.output
  }
}
