package io.tailrace.ops.why

import io.tailrace.common.TailraceAnalysisException
import io.tailrace.plan.GoldenCheckpoints
import io.tailrace.testkit.SparkSuite

/** What is said of checkpoints that releases have left: formats, layouts, and operators that aren't joins. */
final class GoldenWhySuite extends SparkSuite {
  private def why(release: String, query: String, key: Option[String] = None): WhyReport = withDirectory {
    d =>
      val (_, archive) = GoldenCheckpoints.archives.find { case (_, archive) =>
        archive.getParentFile.getName == release && archive.getName == s"$query.zip"
      }.get
      GoldenCheckpoints.unpack(archive, d)
      new Explanation(s"$d/checkpoint", spark.sessionState.newHadoopConf(), 3).report(key)
  }

  test("before and behind a change of the number of partitions the same rows wait, since the same batches") {
    Seq(1, 2).foreach { format =>
      val before = why("0.1.0-3", s"lazy-join-format-$format").operators.head
      val rescaled = why("0.1.0-4", s"rescaled-join-format-$format").operators.head
      assert(before.rows.size == 3 && before.text.head == "9 left rows and 3 right rows are in the state.")
      assert(rescaled.text.head == before.text.head)
      assert(rescaled.rows.map(row => (row.time, row.key)) == before.rows.map(row => (row.time, row.key)))
      assert(rescaled.rows.map(_.since.batch) == before.rows.map(_.since.batch))
    }
  }

  test("the host that holds an accurate watermark") {
    val report = why("0.1.0", "windows")
    assert(
      report.text.contains(
        "The 7 hosts of the watermark 'watermark' have the low watermark 2026-01-01T12:00:09Z; host host-3 has been " +
          "read up to 2026-01-01T12:00:09Z, and holds it."
      )
    )
    assert(report.operators.isEmpty)
  }

  test("rows that go round, and a filter of replays") {
    assert(why("0.1.0", "recursion").text.exists(_.contains("are in flight in the recursion 'recursion'")))
    assert(why("0.1.0", "replays").text.last == "No operator of the query buffers rows.")
    val e = intercept[TailraceAnalysisException](why("0.1.0", "replays", Some("id=1")))
    assert(e.getCondition == "TAILRACE_CHECKPOINT_WITHOUT_JOIN")
  }

  test("the partitions that a synced join waits for, of formats 1 and 3") {
    Seq("0.1.0" -> "synced-join-by-columns", "0.1.0-3" -> "synced-join").foreach { case (release, query) =>
      val text = why(release, query).operators.head.text
      assert(text.exists(_.startsWith("The right side waits for partition ")), text)
      assert(text.exists(_.startsWith("The next row to be emitted is of ")), text)
    }
  }

  test("a join beside other operators says that its watermark may be earlier") {
    assert(
      why("0.1.0", "join-beside-other-operators-format-1").text
        .exists(_.startsWith("The query has state of "))
    )
  }
}
