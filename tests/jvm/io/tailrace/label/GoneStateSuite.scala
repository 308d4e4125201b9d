package io.tailrace.label

import io.tailrace.common.TailraceConf
import io.tailrace.join.JoinMetrics
import io.tailrace.ops.inspect.{CheckpointInspection, CheckpointReport}
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit._

/** The state of rows that leave it long before the end of their window: thirty days, where nearly all are decided within
  * a minute.
  */
final class GoneStateSuite extends SparkSuite {
  private val Pairs = options("30 days").copy(how = "inner")
  private val Groups = options("30 days").copy(`match` = "first", releaseEvery = Some("batch"))
  private val PerBatch = 200

  /** Of the rows of a batch, one in a hundred has no partner; the others have theirs in the next batch. */
  private def served(batch: Int): Seq[Served] =
    (0 until PerBatch).map(i =>
      Served(s"key $batch $i", seconds(20.0 * batch + i * 0.1), batch * PerBatch + i)
    )
  private def engaged(of: Int): Seq[Engaged] = served(of).filter(_.id % 100 != 0).map { l =>
    Engaged(l.k, new java.sql.Timestamp(l.t.getTime + 20000), l.id)
  }

  private case class Measured(rows: Long, bytes: Long, files: Long, out: Seq[Emitted])

  private def measure(o: JoinOptions, batches: Int): Measured = {
    var found: Measured = null
    withDirectory { d =>
      withConf("spark.sql.shuffle.partitions" -> 2, TailraceConf.CompactionRuns.key -> 4) {
        val h = new StreamHarness(spark, d)(join(o, "10 seconds", "10 seconds")).start()
        (0 until batches).foreach { i =>
          if (i == batches / 2) h.restart()
          h.step(served(i), if (i == 0) Nil else engaged(i - 1))
        }
        val p = h.progress()
        def size(name: String): Long = p.customMetrics.get(name)
        val bytes = size(JoinMetrics.LeftStoreBytes) + size(JoinMetrics.RightStoreBytes)
        found = Measured(p.numRowsTotal, bytes, size(JoinMetrics.StateFiles), h.all)
        assert(p.numRowsTotal == StateReader.rows(spark, d, h.batchCount).values.sum)
      }
    }
    found
  }

  test("one_to_one: both rows of a pair leave the state with it, and compaction their bytes", Slow) {
    val plain = measure(Pairs, 24)
    val one = measure(Pairs.copy(oneToOne = true), 24)
    assert(one.out == plain.out && one.out.size == 23 * PerBatch * 99 / 100)
    // Without it, all left rows stay for thirty days, and right rows as long as a left row of their time may come.
    assert(plain.rows >= 24 * PerBatch)
    assert(one.rows == PerBatch + 23 * PerBatch / 100)
    assert(one.bytes * 3 < plain.bytes && one.files < 16)
  }

  test(
    "decided: a left row leaves the state with its first match, and a right row when the watermark has passed it",
    Campaign
  ) {
    val closed = measure(Groups, 24)
    val decided = measure(Groups.copy(release = "decided"), 24)
    assert(closed.out.isEmpty && closed.rows == 24 * PerBatch + 23 * PerBatch * 99 / 100)
    val inTime = decided.out.map(_.id.get).toSet
    assert(inTime.size == decided.out.size && decided.out.forall(e => e.labels == Seq(e.id.get)))
    assert(decided.out.size >= 21 * PerBatch * 99 / 100)
    assert(decided.rows < 4 * PerBatch && decided.bytes * 4 < closed.bytes && decided.files < 16)
  }

  test("decided: Spark's state reader shows a left row until it is emitted, as progress counts it") {
    withDirectory { d =>
      val o = Groups.copy(after = "10 seconds", release = "decided")
      val h = new StreamHarness(spark, d)(join(o)).start()
      // Two rows of one section. The watermark closes the window of the first one alone.
      assert(h.step(Seq(Served("k", seconds(1.1), 1), Served("k", seconds(1.9), 2)), Nil).flatten.isEmpty)
      val (left, right) = (Seq(Served("end", seconds(11.5), 3)), Seq(Engaged(null, seconds(11.5), 13)))
      assert(h.step(left, right).flatten.map(_.id) == Seq(Some(1)))
      val shown = StateReader.rows(spark, d, h.batchCount)
      assert(shown == Map("left-key-sorted" -> 2), "the rows with the ids 2 and 3")
      assert(h.progress().numRowsTotal == shown.values.sum)
      // The first row's time is that of its section. What is left of it is later than what was emitted.
      val report = new CheckpointInspection(d.toString, spark.sessionState.newHadoopConf()).report(None)
      val store = report.operators.head.stores.head
      assert(store.store == "left-key-sorted" && store.rows == 2 && store.oldestIsBound)
      assert(store.oldest.contains(CheckpointReport.iso(seconds(1.5).getTime * 1000 + 1)))
    }
  }

  test("matches that are left out are counted, and so are rows that leave without a partner") {
    withDirectory { d =>
      val o = options("10 seconds").copy(how = "inner", oneToOne = true)
      val h = new StreamHarness(spark, d)(join(o)).start()
      val lefts = Seq(Served("k", seconds(1), 1), Served("k", seconds(2), 2), Served("other", seconds(2), 3))
      val rights = (11 to 13).map(i => Engaged("k", seconds(i - 8.0), i))
      assert(h.step(lefts, rights).flatten.map(e => e.id.get -> e.labels) == Seq(1 -> Seq(11), 2 -> Seq(12)))
      assert(h.total(LabelMetrics.MatchesDropped) == 1 + 1 + 2, "of 11 one, of 12 one, of 13 two")
      assert(h.progress().numRowsTotal == 2)
      h.step(Seq(Served("end", seconds(100), 4)), Seq(Engaged("end", seconds(300), 14)))
      assert(h.total(LabelMetrics.UnpairedRows) == 2)
      assert(h.total(LabelMetrics.LabelsEmitted) == 2)
    }
  }
}
