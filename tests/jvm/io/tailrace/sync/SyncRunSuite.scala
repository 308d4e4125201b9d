package io.tailrace.sync

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.Row
import org.apache.spark.sql.tailrace.RunClock
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.Side
import io.tailrace.common.Side.{Left, Right}
import io.tailrace.testkit.TempDirectory

final class SyncRunSuite extends AnyFunSuite with TempDirectory {
  private def run: SyncRun = new SyncRun(
    SyncMatrixSuite.settings,
    new SyncLog(new Path(directory.toURI), new Configuration),
    RunClock.System,
    register = _ => (),
    retain = 2
  )
  private val nothingListed = (_: Side) => SideSource(None, hasUnread = false)

  private def told(
      task: Int,
      name: String,
      latest: Long,
      jumps: Long = 0,
      rows: Long = 1
  ): (Int, TaskRead) =
    task -> TaskRead(rows, Seq(PartitionRead(name, latest, rows, jumps, 0)))

  test("a batch is judged by the times at its begin, also after its end, and is folded once") {
    val join = run
    assert(join.times(0) == SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown))
    join.read(Left, 0, 0).read.add(told(0, "a", 70))
    join.read(Right, 0, 0).read.add(told(0, "b", 100))
    join.end(0, nothingListed)
    join.read(Right, 0, 0).read.add(told(1, "c", 50))
    join.end(0, nothingListed)
    assert(join.next == SyncTimes(90, 70))
    assert(join.times(0) == SyncTimes(SyncTimes.Unknown, SyncTimes.Unknown))
    assert(join.times(1) == SyncTimes(90, 70))
    assert(run.times(1) == SyncTimes(90, 70))
  }

  test("tasks begin with the greatest times of their partitions and with the bound of late rows") {
    val join = run
    join.read(Right, 0, 0).read.add(told(0, "b", 100))
    join.end(0, nothingListed)
    val begun = join.read(Right, 1, 0)
    assert(begun.latest == Map("b" -> 100) && begun.lateBefore == 90 && begun.syncDelay == 10)
    assert(join.read(Left, 1, 0).lateBefore == SyncTimes.Unknown)
  }

  test("of two runs of a task the one with more rows counts; tasks that share a partition all count") {
    val join = run
    val held = join.held(0)
    Seq(SyncHeld(0, 1, 2, None, None), SyncHeld(1, 10, 20, None, None), SyncHeld(0, 3, 4, None, None))
      .foreach(held.add)
    val read = join.read(Right, 0, 0).read
    Seq(
      told(0, "b", 100, jumps = 1, rows = 7),
      told(1, "b", 120, jumps = 2),
      told(0, "b", 60, rows = 3),
      told(0, "b", 100, jumps = 1, rows = 7)
    ).foreach(read.add)
    // A plan whose nodes are asked for their rows twice.
    join.read(Right, 0, 0).read.add(told(1, "b", 110, rows = 0))
    join.end(0, nothingListed)
    val metrics: Row = join.metrics
    assert(metrics.getAs[Long]("bufferedLeft") == 13 && metrics.getAs[Long]("bufferedRight") == 24)
    assert(metrics.getAs[Long]("possiblyMissed") == 3)
    assert(join.next.release == 110)
  }

  test("a start knows what the batch before it has flushed, and flushes a batch that runs again as it did") {
    def started(idleMs: Option[Long]): SyncRun = new SyncRun(
      SyncMatrixSuite.settings.copy(idleTimeoutMs = idleMs),
      new SyncLog(new Path(directory.toURI), new Configuration),
      RunClock.System,
      register = _ => (),
      retain = 2,
      flushes = Map(1L -> 500L).get(_)
    )
    val join = started(Some(1))
    join.read(Left, 0, 0).read.add(told(0, "a", 70))
    join.read(Right, 0, 0).read.add(told(0, "b", 100))
    join.end(0, nothingListed)
    assert(join.times(1).release == 501 && join.timesByProgress(1) == SyncTimes(90, 70))
    assert(join.timesBefore(1).release == SyncTimes.Unknown)
    join.end(1, nothingListed)
    assert(join.times(2).release == 501 && join.timesBefore(2).release == 501)
    Seq(Some(1L), None).foreach { idle =>
      assert(started(idle).times(1).release == 501)
      val next = started(idle)
      assert(next.times(2).release == 501 && next.timesBefore(2).release == 501)
    }
  }
}
