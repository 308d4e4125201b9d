package io.tailrace.sync

import java.io.File
import java.nio.file.Files

import org.apache.spark.sql.DataFrame

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceAnalysisException
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit._

/** A synced join whose query has had no input for long flushes what it holds, whatever the right side's progress. */
final class IdleSyncSuite extends SparkSuite {
  private val limit = 60L * 60 * 1000
  private val hour = IdleSyncSuite.options.copy(idleTimeout = Some("1 hour"))

  private def served(t: Double, id: Int, k: String = "k") = Served(k, seconds(t), id)
  private def engaged(t: Double, rid: Int, k: String = "k") = Engaged(k, seconds(t), rid)
  private def pair(id: Int, rights: Int*) = Emitted("k", Some(id), rights)

  private def query(options: SyncOptions = hour)(body: (StreamHarness, ManualClock, File) => Unit): Unit =
    withClock { (d: File, clock: ManualClock) =>
      val h = new StreamHarness(spark, d, Some(clock))(IdleSyncSuite.join(options)).start()
      try body(h, clock, d)
      finally h.stop()
    }

  private def pass(h: StreamHarness, clock: ManualClock, eighths: Int): Seq[Seq[Emitted]] =
    h.pass(clock, limit, eighths)

  test("after an hour without input left rows come out, once, and later rows for them are late") {
    query() { (h, clock, _) =>
      assert(h.step(Seq(served(1, 1), served(4, 2, "other")), Seq(engaged(2, 10))).flatten.isEmpty)
      assert(pass(h, clock, 7).flatten.isEmpty)
      assert(pass(h, clock, 1).flatten == Seq(pair(1, 10), Emitted("other", Some(2), Nil)))
      assert(h.total(SyncMetrics.FlushedByIdleTimeout) == 2 && h.total(SyncMetrics.LateLeft) == 0)
      assert(pass(h, clock, 20).isEmpty, "nothing waits, and no batch runs")
      // The newest left row that has come out is of 4: one up to there doesn't wait, and one after it does.
      assert(h.step(Seq(served(4, 3), served(4.5, 4)), Seq(engaged(3, 11))).flatten == Seq(pair(3, 11)))
      assert(h.total(SyncMetrics.LateLeft) == 1 && h.total(SyncMetrics.FlushedByIdleTimeout) == 2)
      assert(IdleSyncSuite.late(h) == 1, "the right row of 3 comes after its time has been released")
      assert(h.right(engaged(5, 12)).flatten.isEmpty)
      assert(pass(h, clock, 8).flatten == Seq(pair(4, 12)))
    }
  }

  test("without the option, with input on either side, and before the hour is over, nothing comes out") {
    query(hour.copy(idleTimeout = None)) { (h, clock, _) =>
      h.left(served(1, 1))
      assert(pass(h, clock, 20).isEmpty)
    }
    query() { (h, clock, _) =>
      h.left(served(1, 1))
      assert((1 to 3).flatMap(i => h.right(engaged(i.toDouble, i)) ++ pass(h, clock, 7)).flatten.isEmpty)
    }
  }

  test("right rows that nobody joins stay, unless they are emitted") {
    query() { (h, clock, _) =>
      h.step(Seq(served(1, 1)), Seq(engaged(2, 10, "other")))
      assert(pass(h, clock, 9).flatten == Seq(pair(1)))
      // It may join a left row of 10.
      assert(h.left(served(10, 2, "other")).flatten.isEmpty)
      assert(pass(h, clock, 8).flatten == Seq(Emitted("other", Some(2), Seq(10))))
    }
    query(hour.copy(onUnmatchedRight = "emit")) { (h, clock, _) =>
      h.step(Seq(served(1, 1)), Seq(engaged(2, 10, "other")))
      assert(pass(h, clock, 9).flatten == Seq(pair(1), Emitted("other", None, Seq(10))))
      // It could have joined a left row of 62, and been joined 5 seconds later.
      assert(h.left(served(62, 2, "other"), served(67.1, 3)).flatten == Seq(Emitted("other", Some(2), Nil)))
    }
  }

  test("with one_to_one a left row that has been flushed isn't paired with a later right row") {
    query(hour.copy(oneToOne = true)) { (h, clock, _) =>
      assert(
        h.step(Seq(served(1, 1), served(2, 2, "other")), Seq(engaged(2, 10))).flatten == Seq(pair(1, 10))
      )
      assert(pass(h, clock, 9).flatten == Seq(Emitted("other", Some(2), Nil)))
      assert(h.right(engaged(3, 11, "other")).flatten.isEmpty)
      assert(h.total(SyncMetrics.FlushedByIdleTimeout) == 1)
    }
  }

  test("the time that a query is down is no silence, and a start remembers what was flushed") {
    query() { (h, clock, _) =>
      h.step(Seq(served(4, 1)), Seq(engaged(2, 10)))
      assert(pass(h, clock, 9).flatten == Seq(pair(1, 10)))
      h.left(served(5, 2))
      h.stop()
      clock.advance(10 * limit)
      h.start()
      // It is late in the new run, too: 4 has been released.
      assert(h.left(served(3, 3)).flatten == Seq(pair(3)))
      assert(pass(h, clock, 7).isEmpty)
      assert(pass(h, clock, 1).flatten == Seq(pair(2)))
    }
  }

  test("a batch that flushes and runs again after a crash flushes the same, whatever came meanwhile") {
    query() { (h, clock, d) =>
      h.step(Seq(served(1, 1), served(4, 2, "other")), Seq(engaged(2, 10)))
      pass(h, clock, 9)
      val flushing = h.batchCount - 1
      val out = Seq(pair(1, 10), Emitted("other", Some(2), Nil))
      assert(h.byBatch(flushing) == out)
      h.stop()
      // As if the process had died after the batch was logged and before it was committed.
      Files.delete(Checkpoint.newestFirst(new File(d, "commits")).head.toPath)
      h.preload(Seq(served(3, 3), served(6, 4)), Seq(engaged(3, 11)))
      // Whatever the query is now.
      h.start(IdleSyncSuite.join(hour.copy(idleTimeout = None)))
      h.settle()
      assert(h.changed.isEmpty && h.byBatch(flushing) == out)
      assert(h.all.diff(out) == Seq(pair(3, 11)), "of the rows that came meanwhile, that of 3 is late")
      assert(h.total(SyncMetrics.LateLeft) == 1)
      assert(pass(h, clock, 9).isEmpty)
    }
  }

  test("rows ahead of the clock wait for their time") {
    query(hour.copy(futureLimit = Some("1 hour"))) { (h, clock, _) =>
      h.left(served(1, 1), served(1e10, 2))
      assert(pass(h, clock, 9).flatten == Seq(pair(1)))
    }
  }

  test("it needs a duration, and batches without data") {
    val wrong = intercept[TailraceAnalysisException](hour.copy(idleTimeout = Some("now")).settings)
    assert(wrong.getCondition == "TAILRACE_OPTION_INVALID" && wrong.getMessage.contains("`idle_timeout`"))
    withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> false) {
      checkRefused("TAILRACE_JOIN_CLOSES_IN_NO_BATCH", "option" -> "`idle_timeout`")(
        query()((_, _, _) => ())
      )
    }
  }
}

private[sync] object IdleSyncSuite {

  /** Each right row is a partition of its own. So the first one, which gives nothing more, holds the join back. */
  val options: SyncOptions = SyncOptions(
    leftTime = "t",
    rightTime = "rt",
    window = "60 seconds",
    syncDelay = "5 seconds",
    leftPartition = Seq("id"),
    rightPartition = Seq("rid"),
    maxBuffered = None
  )

  def join(options: SyncOptions)(served: DataFrame, engaged: DataFrame): DataFrame =
    Tailrace.syncJoin(served, engaged, Seq("k" -> "k"), options)

  /** Rows that were late by the last progress that has some. */
  def late(h: StreamHarness): Long = {
    val told = h.streaming.recentProgress.flatMap(p => Option(p.observedMetrics.get("tailrace.syncJoin")))
    told
      .map(_.getSeq[org.apache.spark.sql.Row](5).map(_.getLong(2)).sum)
      .filter(_ > 0)
      .lastOption
      .getOrElse(0L)
  }
}
