package io.tailrace.state

import org.apache.hadoop.conf.Configuration
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import io.tailrace.common.TailraceConf
import io.tailrace.testkit.{HeldWrite, StoreFixture, TestRow, WatchedFiles}

final class CompactionSuite extends AnyFunSuite with StoreFixture with Eventually {
  import StoreKind.{JoinedIndicator, LeftTimeSorted, RightKeySorted}

  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(20, Millis))

  private def run(name: String, level: Int): Run = Run(name, 1, 0, Nil, level)
  private def levels(runs: Int*): Seq[Run] = runs.zipWithIndex.map { case (level, i) => run(s"r$i", level) }

  test("the first neighbours of one level are due, as many as one compaction takes, oldest first") {
    assert(Compaction.due(Nil, 2).isEmpty)
    assert(Compaction.due(levels(0, 0), 3).isEmpty)
    assert(Compaction.due(levels(0, 0, 0, 0), 3).map(_.name) == Seq("r0", "r1", "r2"))
    assert(Compaction.due(levels(1, 1, 0, 0, 0), 3).map(_.name) == Seq("r2", "r3", "r4"))
    assert(Compaction.due(levels(1, 0, 1, 0, 1, 0), 2).isEmpty, "neighbours only")
    assert(Compaction.due(levels(1, 1, 1, 0, 0, 0), 3).map(_.level) == Seq(1, 1, 1))
  }

  private def compacting(runs: Int): Configuration = {
    val conf = hadoopConf()
    conf.set(TailraceConf.CompactionRuns.key, runs.toString)
    conf
  }

  private def owner(runs: Int, settings: (String, String)*): OwnStore =
    new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(settings: _*), compacting(runs))

  private def load(owner: OwnStore, version: Long): TailraceStateStore =
    owner.store(version, None, empty = false)

  /** Rows of several times and keys, some of them in each bucket; numbered by the store. */
  private def rowsOfBatch(store: TailraceStateStore, batch: Int): Seq[TestRow] =
    (0 until 40).map { i =>
      TestRow.of(s"key ${i % 7}", (batch * 10 + i % 23).toLong, store.newSeq(), s"batch $batch row $i")
    }

  private def step(owner: OwnStore, version: Long): Seq[TestRow] = {
    val store = load(owner, version)
    val left = rowsOfBatch(store, version.toInt)
    val right = rowsOfBatch(store, version.toInt)
    store.addRun(10, LeftTimeSorted -> bufferOf(left), RightKeySorted -> bufferOf(right))
    store.commit()
    left ++ right
  }

  private def content(store: TailraceStateStore): Seq[TestRow] =
    Seq(LeftTimeSorted, RightKeySorted).flatMap(rowsOf(store, _)).sortBy(_.seq)

  private def peek[T](owner: OwnStore, version: Long)(body: TailraceStateStore => T): T = {
    val store = load(owner, version)
    try body(store)
    finally store.abort()
  }

  /** Waits until a store of this version begins with fewer runs than were written. */
  private def awaitCompacted(owner: OwnStore, version: Long, files: Int): Unit =
    eventually(peek(owner, version)(store => assert(store.files == files)))

  test("compaction keeps the rows and their order, and leaves fewer files") {
    val o = owner(4)
    val rows = (0L until 4L).flatMap(step(o, _))
    awaitCompacted(o, 4, files = 1)
    peek(o, 4) { store =>
      assert(content(store) == rows.sortBy(_.seq))
      store.sectionsOf(LeftTimeSorted).map(TestRow.all).foreach { section =>
        assert(section.map(r => (r.time, r.seq)) == section.map(r => (r.time, r.seq)).sorted)
      }
      store.sectionsOf(RightKeySorted).map(TestRow.all).foreach { section =>
        val keys = section.map(_.key)
        assert(keys == keys.sorted(TestRow.byteOrder))
      }
    }
    o.close()
  }

  test("the next version names the new run, another executor loads it, and older versions stay the same") {
    val o = owner(3)
    val rows = (0L until 3L).flatMap(step(o, _))
    awaitCompacted(o, 3, files = 1)
    val more = step(o, 3)
    val manifest = new CheckpointFiles(storeId.storeCheckpointLocation(), hadoopConf()).readManifest(4, None)
    assert(manifest.runs.map(_.level) == Seq(1, 0))
    o.close()
    val other = owner(100)
    peek(other, 4)(store => assert(content(store) == (rows ++ more).sortBy(_.seq)))
    peek(other, 3)(store => assert(content(store) == rows.sortBy(_.seq) && store.files == 3))
    other.close()
  }

  test("runs of compactions are compacted with runs of the same level") {
    val o = owner(2)
    val files = new CheckpointFiles(storeId.storeCheckpointLocation(), hadoopConf())
    def highest(version: Long) = files.readManifest(version, None).runs.map(_.level).max
    var rows = Seq.empty[TestRow]
    var version = 0L
    eventually {
      rows ++= step(o, version)
      version += 1
      assert(highest(version) >= 2)
    }
    peek(o, version)(store => assert(content(store) == rows.sortBy(_.seq)))
    o.close()
  }

  test("rows that have expired are left out, and counted once") {
    val o = owner(3)
    (0L until 2L).foreach(step(o, _))
    val store = load(o, 2)
    val left = rowsOfBatch(store, 2)
    store.addRun(10, LeftTimeSorted -> bufferOf(left))
    val before = store.sectionsOf(LeftTimeSorted).map(live => live -> TestRow.all(live)).toMap
    store.markExpired(LeftTimeSorted, 25, live => before(live).count(_.time <= 25).toLong)
    store.dropThrough(LeftTimeSorted, 25)
    store.commit()
    val alive = peek(o, 3)(s => s.metrics.numKeys)
    awaitCompacted(o, 3, files = 1)
    peek(o, 3) { s =>
      assert(rowsOf(s, LeftTimeSorted).forall(_.time > 25))
      assert(s.metrics.numKeys == alive)
    }
    o.close()
  }

  test("rows that expire while a compaction waits are counted as expired in its run") {
    val o = owner(3)
    (0L until 3L).foreach(step(o, _))
    awaitCompacted(o, 3, files = 1)
    // A store that had begun before the compaction was ready goes on with the old runs.
    val plain = owner(100)
    val count = peek(plain, 3)(_.metrics.numKeys)
    plain.close()
    val store = load(o, 3)
    assert(store.metrics.numKeys == count)
    store.markExpired(LeftTimeSorted, 12, live => TestRow.all(live).count(_.time <= 12).toLong)
    store.commit()
    val again = owner(100)
    val expired = peek(again, 3)(s => rowsOf(s, LeftTimeSorted).count(_.time <= 12))
    peek(o, 4)(s => assert(s.metrics.numKeys == count - expired))
    again.close()
    o.close()
  }

  test("a compaction isn't used for an older version without its rows") {
    val o = owner(3)
    val first = step(o, 0) ++ step(o, 1)
    step(o, 2)
    awaitCompacted(o, 3, files = 1)
    peek(o, 2)(store => assert(content(store) == first.sortBy(_.seq)))
    // What batch 2 makes this time is another run; the compaction with the old one must not come back.
    val other = step(o, 2)
    peek(o, 3)(store => assert(content(store) == (first ++ other).sortBy(_.seq)))
    o.close()
  }

  test("an aborted batch leaves the compaction for the next attempt") {
    val o = owner(2)
    val rows = step(o, 0) ++ step(o, 1)
    awaitCompacted(o, 2, files = 1)
    peek(o, 2)(store => store.addRun(10, LeftTimeSorted -> bufferOf(rowsOfBatch(store, 9))))
    peek(o, 2)(store => assert(store.files == 1 && content(store) == rows.sortBy(_.seq)))
    o.close()
  }

  test("a purge keeps a new run that waits, and a run that no version can use isn't used") {
    val o = owner(2, retain(1))
    val rows = step(o, 0) ++ step(o, 1)
    awaitCompacted(o, 2, files = 1)
    o.maintain()
    val more = step(o, 2)
    o.maintain()
    o.close()
    val other = owner(100)
    peek(other, 3)(store => assert(content(store) == (rows ++ more).sortBy(_.seq)))
    other.close()
  }

  test("matches of one left row from several runs come together, by their keys") {
    val o = owner(2)
    def joined(seq: Long, key: String) = TestRow(TestRow.bytes(key), 5, seq, TestRow.bytes(s"of $seq: $key"))
    Seq(Seq(joined(1, "b"), joined(2, "a")), Seq(joined(1, "c"), joined(1, "a"))).zipWithIndex.foreach {
      case (rows, version) =>
        val store = load(o, version.toLong)
        store.addRun(10, JoinedIndicator -> bufferOf(rows))
        store.commit()
    }
    awaitCompacted(o, 2, files = 1)
    peek(o, 2) { store =>
      assert(
        rowsOf(store, JoinedIndicator) ==
          Seq(joined(1, "a"), joined(1, "b"), joined(1, "c"), joined(2, "a"))
      )
    }
    o.close()
  }

  test("a compaction that fails changes nothing, and is tried again later, but not with each batch") {
    val o = new OwnStore(
      storeId,
      storeId.storeCheckpointLocation(),
      storeConf(),
      WatchedFiles.configure(withoutInlineRuns(compacting(2)))
    )
    val first = step(o, 0)
    val store = load(o, 1)
    val second = rowsOfBatch(store, 1)
    store.addRun(10, RightKeySorted -> bufferOf(second))
    eventually(assert(checkpointFiles.count(_.endsWith(".run")) == 2))
    HeldWrite.during(".run", fails = true) { compaction =>
      store.commit()
      compaction.awaitBegin()
      assert(o.localFile("x").getParentFile.list.length == 3)
      compaction.release()
      eventually(assert(o.localFile("x").getParentFile.list.length == 2))
    }
    val rows = first ++ second ++ step(o, 2)
    Compactor.awaitEnd()
    peek(o, 3)(s => assert(s.files == 3 && content(s) == rows.sortBy(_.seq)))
    val more = step(o, 3)
    awaitCompacted(o, 4, files = 3)
    peek(o, 4)(s => assert(content(s) == (rows ++ more).sortBy(_.seq)))
    o.close()
  }
}
