package io.tailrace.state

import java.util.concurrent.CountDownLatch

import io.tailrace.testkit.{Damage, FileStep, TestRow, WatchedFiles}

final class OwnStoreSuite extends OwnStoreFixture {

  test("an executor loads a version that another one has committed") {
    val rows = (0L to 2L).map(step(newOwner(), _))
    assert(readAndClose(load(newOwner(), 3)) == rows)
    assert(plainNames == Set("1.manifest", "2.manifest", "3.manifest"))
  }

  test("a retained older version is loaded unchanged, also after a newer one") {
    val owner = newOwner()
    val rows = (0L to 2L).map(step(owner, _))
    assert(readAndClose(load(owner, 2)) == rows.take(2))
    assert(readAndClose(load(owner, 1)) == rows.take(1))
    assert(readAndClose(load(owner, 0)).isEmpty)
    assert(readAndClose(load(owner, 3)) == rows)
  }

  test("the newest version is served from local files") {
    val owner = newOwner()
    val row = step(owner, 0)
    assert(manifest(1).delete())
    assert(readAndClose(load(owner, 1)) == Seq(row))
  }

  test("a store that begins empty has no rows, whatever the checkpoint has") {
    step(newOwner(), 0)
    val store = newOwner().store(1, None, empty = true)
    assert(store.version == 1)
    assert(readAndClose(store).isEmpty)
  }

  test("of two stores on one version each commits its own, and the last manifest wins") {
    val owner = newOwner()
    val base = step(owner, 0)
    val (a, b) = (load(owner, 1), load(owner, 1))
    val (rowA, rowB) = (TestRow.of("a", 5, 5), TestRow.of("b", 6, 6))
    add(a, rowA).commit()
    assert(readAndClose(load(owner, 2)) == Seq(base, rowA))
    add(b, rowB).commit()
    assert(readAndClose(load(owner, 2)) == Seq(base, rowB))
    assert(readAndClose(load(newOwner(), 2)) == Seq(base, rowB))
  }

  test("a store on the first attempt's version goes on after the second attempt's late commit") {
    val owner = newOwner()
    val base = step(owner, 0)
    val zombie = load(owner, 1)
    val rowA = TestRow.of("a", 5, 5)
    add(load(owner, 1), rowA).commit()
    val next = load(owner, 2)
    add(zombie, TestRow.of("b", 6, 6)).commit()
    val rowC = TestRow.of("c", 7, 7)
    add(next, rowC).commit()
    assert(readAndClose(load(owner, 3)) == Seq(base, rowA, rowC))
    assert(readAndClose(load(newOwner(), 3)) == Seq(base, rowA, rowC))
  }

  test("a late commit of an old version doesn't push out a newer one") {
    val owner = newOwner()
    val rows = (0L to 0L).map(step(owner, _))
    val zombie = load(owner, 1)
    val more = (1L to 2L).map(step(owner, _))
    add(zombie, TestRow.of("zombie", 9, 9)).commit()
    // The newest is still the local one: it is there without the checkpoint.
    checkpointFiles.foreach(name => assert(stored(name).delete()))
    assert(readAndClose(load(owner, 3)) == rows ++ more)
    assert(localFiles(owner).size == 3)
  }

  test("a load that ends late doesn't push out what was committed meanwhile") {
    val rows = (0L to 1L).map(step(newOwner(), _))
    val owner = new OwnStore(
      storeId,
      storeId.storeCheckpointLocation(),
      storeConf(),
      WatchedFiles.configure(hadoopConf())
    )
    val (begun, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    val zombie = new Thread(() => load(owner, 1).abort())
    val holding: WatchedFiles.Watcher = (step, _) =>
      if (step == FileStep.Open && (Thread.currentThread eq zombie)) {
        begun.countDown()
        goOn.await()
      }
    val added = WatchedFiles.watchedBy(holding) {
      zombie.start()
      begun.await()
      val row = step(owner, 2)
      goOn.countDown()
      zombie.join()
      row
    }
    // The newest is still the local one: it is there without the checkpoint.
    checkpointFiles.foreach(name => assert(stored(name).delete()))
    assert(readAndClose(load(owner, 3)) == rows :+ added)
  }

  test("a commit can be continued after an older version was loaded in between") {
    val owner = newOwner()
    val rows = (0L to 2L).map(step(owner, _))
    val ahead = load(owner, 3)
    readAndClose(load(owner, 1))
    val row = TestRow.of("k", 9, 9)
    add(ahead, row).commit()
    assert(readAndClose(load(owner, 4)) == rows :+ row)
  }

  test("a local file of a run that no version needs is deleted with its last user") {
    val owner = newOwner()
    step(owner, 0)
    val reader = load(owner, 1)
    val dropping = load(owner, 1)
    dropping.dropThrough(kind, 100)
    dropping.commit()
    assert(localFiles(owner).size == 1)
    assert(rowsOf(reader, kind).size == 1)
    reader.abort()
    assert(localFiles(owner).isEmpty)
  }

  test("checkpoint ids tell the attempts of a version apart") {
    val owner = newOwner(CheckpointIds)
    val base = TestRow.of("k", 0, 0)
    def commit(version: Long, id: Option[String], row: TestRow): Option[String] = {
      val store = add(load(owner, version, id), row)
      store.commit()
      val info = store.getStateStoreCheckpointInfo()
      assert(info.partitionId == 0 && info.batchVersion == version + 1 && info.baseStateStoreCkptId == id)
      assert(info.stateStoreCkptId.isDefined)
      info.stateStoreCkptId
    }
    val first = commit(0, None, base)
    val (rowA, rowB) = (TestRow.of("a", 5, 5), TestRow.of("b", 6, 6))
    val idA = commit(1, first, rowA)
    val idB = commit(1, first, rowB)
    assert(idA != idB)
    Seq(owner, newOwner(CheckpointIds)).foreach { o =>
      assert(readAndClose(load(o, 2, idA)) == Seq(base, rowA))
      assert(readAndClose(load(o, 2, idB)) == Seq(base, rowB))
    }
    assert(
      checkpointFiles == Set(s"1_${first.get}", s"2_${idA.get}", s"2_${idB.get}").map(_ + ".manifest")
    )
  }

  test("without checkpoint ids none is reported") {
    val store = add(load(newOwner(), 0), TestRow.of("k", 1, 1))
    store.commit()
    assert(store.getStateStoreCheckpointInfo().stateStoreCkptId.isEmpty)
  }

  test("a missing or damaged file stops the load, each time, and leaves nothing behind") {
    def newOne() =
      new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), withoutInlineRuns(hadoopConf()))
    (0L to 1L).foreach(step(newOne(), _))
    val run = stored(checkpointFiles.filter(_.endsWith(".run")).toSeq.sorted.last)
    val owner = newOwner()
    Damage.flipMiddle(run)
    (1 to 2).foreach(_ => assertFails("TAILRACE_STATE_FILE_CORRUPT", run, owner)(load(owner, 2)))
    assert(run.delete())
    (1 to 2).foreach(_ => assertFails("TAILRACE_STATE_FILE_MISSING", run, owner)(load(owner, 2)))
    val file = manifest(2)
    Damage.flipMiddle(file)
    assertFails("TAILRACE_STATE_FILE_CORRUPT", file, owner)(load(owner, 2))
    assert(file.delete())
    assertFails("TAILRACE_STATE_FILE_MISSING", stored("2.*.manifest"), owner)(load(owner, 2))
  }

  test("maintenance keeps the versions that Spark retains") {
    val owner = newOwner(retain(2))
    val rows = (0L to 4L).map(step(owner, _))
    owner.maintain()
    assert(readAndClose(load(newOwner(), 3)) == rows.take(3))
    assert(readAndClose(load(newOwner(), 4)) == rows.take(4))
    assert(readAndClose(load(newOwner(), 5)) == rows)
  }

  test("maintenance keeps the version that a repeated batch begins with") {
    val owner = newOwner(retain(1))
    val rows = (0L to 2L).map(step(owner, _))
    // Version 3 is there, and its batch isn't committed yet.
    owner.maintain()
    assert(readAndClose(load(newOwner(), 2)) == rows.take(2))
  }

  test("after close nothing can be opened and local files are gone once the last store is") {
    val owner = newOwner()
    val row = step(owner, 0)
    val late = load(owner, 1)
    owner.close()
    assertThrows[IllegalArgumentException](load(owner, 1))
    assert(rowsOf(late, kind) == Seq(row))
    val more = TestRow.of("late", 9, 9)
    add(late, more).commit()
    assert(localFiles(owner).isEmpty)
    assert(readAndClose(load(newOwner(), 2)) == Seq(row, more))
  }

  test("close removes the local directory") {
    val owner = newOwner()
    step(owner, 0)
    val local = owner.localFile("x").getParentFile
    owner.close()
    assert(!local.exists)
    owner.close()
  }
}
