package io.tailrace.state

import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, TimeUnit}

import scala.util.Random

import org.apache.spark.sql.execution.streaming.state.StateStoreId

import io.tailrace.common.{TailraceConf, TailraceStateException}
import io.tailrace.testkit.{FileStep, TestRow, WatchedFiles}

/** Partitions whose runs don't all have room on the local disk. */
final class LocalDiskSuite extends ComingRunsFixture {

  test("a merge lets runs come side by side that have no room beside others") {
    val rows = written(4)
    val bytes = runs.map(stored(_).length).sum
    val owner =
      new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), background(localBytes = bytes))
    // Something else fills the disk, and was read longer ago.
    val other = {
      val id = StateStoreId(directory.toURI.toString + "/other", 0L, 0)
      new OwnStore(id, id.storeCheckpointLocation(), storeConf(), background(bytes))
    }
    (0L to 3L).foreach(step(other, _))
    val all = new CountDownLatch(runs.size)
    val together: WatchedFiles.Watcher = (step, path) =>
      if (step == FileStep.Open && runs.contains(path.getName)) {
        all.countDown()
        assert(all.await(60, TimeUnit.SECONDS))
      }
    val store = load(owner, 4)
    val merged = WatchedFiles.watchedBy(together) {
      new MergedSections(store.sectionsOf(kind), RunCursor.inOrder(kind.order), Long.MinValue)
    }
    assert(Iterator.continually(TestRow.read(merged.head)).tapEach(_ => merged.drop()).take(4).toSeq == rows)
    merged.close()
    store.abort()
  }

  test("a small partition is waited for, with little disk too") {
    val rows = written(3)
    val conf = background(localBytes = 0)
    conf.set(TailraceConf.BackgroundLoadBytes.key, TailraceConf.BackgroundLoadBytes.default.toString)
    val owner = new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), conf)
    assert(readAndClose(load(owner, 3)) == rows)
  }

  test("runs beyond the bytes that may be here are emptied, and come back when they are read") {
    val owner =
      new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), background(localBytes = 0))
    val rows = (0L to 4L).map(step(owner, _))
    assert(readAndClose(load(owner, 5)) == rows)
    val directory = owner.localFile("x").getParentFile
    assert(directory.listFiles.count(_.length > 0) == 1)
    assert(readAndClose(load(owner, 5)) == rows)
    // What is here no more is read from the checkpoint.
    assert(stored(runs.head).delete())
    val error = intercept[TailraceStateException](readAndClose(load(owner, 5)))
    assert(error.getCondition == "TAILRACE_STATE_FILE_MISSING")
  }

  test("a run that is being read stays, whatever may be here") {
    val owner =
      new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), background(localBytes = 0))
    val rows = (0L to 2L).map(step(owner, _))
    val store = load(owner, 3)
    val cursors = store.sectionsOf(kind).map(_.cursor())
    cursors.foreach(_.first())
    assert(cursors.map(cursor => TestRow.read(cursor)) == rows)
    cursors.foreach(_.close())
    store.abort()
  }

  test("compaction reads runs that are not here any more") {
    val conf = background(localBytes = 0)
    conf.set(TailraceConf.CompactionRuns.key, "3")
    val owner = new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), conf)
    val rows = (0L to 2L).map(step(owner, _))
    eventually {
      val store = load(owner, 3)
      try {
        assert(store.files == 1)
        assert(rowsOf(store, kind) == rows)
      } finally store.abort()
    }
  }

  test("with durability none nothing is emptied: it is the only copy") {
    val conf = background(localBytes = 0)
    conf.set(TailraceConf.StateDurability.key, "none")
    val owner = new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), conf)
    val rows = (0L to 4L).map(step(owner, _))
    assert(readAndClose(load(owner, 5)) == rows)
  }

  test("many readers of many versions at a time read what was written, with little room") {
    val rows = written(10)
    val bytes = runs.map(stored(_).length).sum
    val owner = new OwnStore(
      storeId,
      storeId.storeCheckpointLocation(),
      storeConf(),
      background(localBytes = bytes / 3)
    )
    val failures = new ConcurrentLinkedQueue[Throwable]
    val readers = (0 until 6).map { seed =>
      inThread {
        val random = new Random(seed)
        try
          (0 until 40).foreach { _ =>
            val version = 1 + random.nextInt(10)
            assert(readAndClose(load(owner, version.toLong)) == rows.take(version))
          }
        catch { case e: Throwable => failures.add(e): Unit }
      }
    }
    readers.foreach(_.join())
    assert(failures.isEmpty, failures)
  }

  test("runs count while they are here") {
    def newOne() =
      new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), background(localBytes = 1L << 40))
    val owner = newOne()
    val other = newOne()
    // Partitions of suites before may still be closing theirs.
    def counted = Seq(owner, other).map(o => LocalDisk.ofExecutor.bytesIn(o.localFile("x").getParentFile))
    (0L to 2L).foreach(step(owner, _))
    val bytes = runs.map(stored(_).length).sum
    assert(counted == Seq(bytes, 0))
    val store = load(other, 3)
    assert(counted == Seq(bytes, bytes))
    owner.close()
    other.close()
    store.abort()
    assert(counted == Seq(0, 0))
  }
}
