package io.tailrace.state

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{NoPrefixKeyStateEncoderSpec, StateStore}
import org.apache.spark.sql.types.StructType
import org.scalacheck.Gen
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{FileFault, FileFaults, FileStep, HeldWrite, StoreFixture, TestRow, WatchedFiles}

final class TailraceStateStoreSuite extends AnyFunSuite with StoreFixture with ScalaCheckPropertyChecks {
  import StoreKind.{LeftTimeSorted, RightKeySorted}

  private def at(times: Long*): Seq[TestRow] = times.map(t => TestRow.of(s"key $t", t, t, s"value $t"))

  /** A store of version 0 with these rows as its first run. */
  private def storeWith(
      left: Seq[TestRow],
      right: Seq[TestRow] = Nil,
      bucketWidth: Long = 10
  ): TailraceStateStore = {
    val store = open(newProvider(), 0)
    store.addRun(bucketWidth, LeftTimeSorted -> bufferOf(left), RightKeySorted -> bufferOf(right))
    store
  }

  private def reopen(version: Long): TailraceStateStore = open(newProvider(), version)

  private def rowCount(store: TailraceStateStore): Long = store.metrics.numKeys

  test(
    "random batches over a fresh provider each: state is all rows that were added, less what was dropped"
  ) {
    val batch = TestRow.rows(Gen.choose(0L, 100L))
    forAll(Gen.choose(1, 4).flatMap(Gen.listOfN(_, batch)), Gen.choose(0L, 100L), minSuccessful(15)) {
      (batches, drop) =>
        emptyDirectory()
        batches.zipWithIndex.foreach { case (rows, i) =>
          val store = reopen(i.toLong)
          store.addRun(10, RightKeySorted -> bufferOf(rows.map(_.copy(seq = store.newSeq()))))
          assert(store.commit() == i + 1)
        }
        val store = reopen(batches.size.toLong)
        def plain(rows: Seq[TestRow]) =
          rows.map(_.copy(seq = 0)).groupBy(identity).view.mapValues(_.size).toMap
        assert(plain(rowsOf(store, RightKeySorted)) == plain(batches.flatten))
        assert(rowCount(store) == batches.map(_.size).sum)
        val dropped = store.dropThrough(RightKeySorted, drop)
        assert(store.sectionsOf(RightKeySorted).forall(_.section.maxTime > drop))
        assert(dropped + rowCount(store) == batches.map(_.size).sum)
        store.abort()
    }
  }

  test("nothing is seen of a store before it commits") {
    val store = storeWith(at(1, 2))
    assert(checkpointFiles.isEmpty)
    store.commit()
    assert(store.hasCommitted)
    val next = reopen(1)
    assert(rowsOf(next, LeftTimeSorted) == at(1, 2))
    next.abort()
  }

  test("after abort nothing is left but a run that no manifest names, which maintenance removes") {
    val provider = newProvider(storeConf(retain(1)))
    val store = open(provider, 0)
    val local = store.addRun(10, LeftTimeSorted -> bufferOf(at(1, 2))).head.local.file
    assert(local.exists)
    store.abort()
    store.abort()
    assert(!store.hasCommitted)
    eventually(timeout(Span(60, Seconds)))(assert(!local.exists))
    assert(checkpointFiles.forall(_.endsWith(".run")))
    // Two versions are retained at least, and the newest: see OwnStore.
    (0L to 3L).foreach { version =>
      val again = open(provider, version)
      assert(rowsOf(again, LeftTimeSorted).isEmpty)
      again.commit()
    }
    provider.doMaintenance()
    assert(checkpointFiles == Set("2.manifest", "3.manifest", "4.manifest"))
  }

  Seq(".run", ".manifest").foreach { suffix =>
    test(s"a commit that fails at its $suffix makes no version, and can be made again by another store") {
      val provider = newProvider(hadoop = WatchedFiles.configure(hadoopConf()))
      val store = open(provider, 0)
      val ((error, local), _) =
        FileFaults.during(FileFault(FileStep.Create, suffix.r)) {
          val file = store.addRun(10, RightKeySorted -> bufferOf(at(1))).head.local.file
          (intercept[TailraceStateException](store.commit()), file)
        }
      assert(error.getCondition == "TAILRACE_STATE_FILE_UNAVAILABLE")
      store.abort()
      eventually(timeout(Span(60, Seconds)))(assert(!local.exists))
      assert(!store.hasCommitted)
      assert(!checkpointFiles.exists(_.endsWith(".manifest")))
      val second = open(provider, 0)
      second.addRun(10, LeftTimeSorted -> bufferOf(at(2)))
      second.commit()
      val next = reopen(1)
      assert(rowsOf(next, LeftTimeSorted) == at(2))
      next.abort()
    }
  }

  test("one upload of several that fails makes the commit fail, also if all of its run has expired") {
    val provider = newProvider(hadoop = WatchedFiles.configure(hadoopConf()))
    val store = open(provider, 0)
    HeldWrite.during(".run") { first =>
      store.addRun(10, LeftTimeSorted -> bufferOf(at(1)))
      first.awaitBegin()
    }
    HeldWrite.during(".run", fails = true) { second =>
      val local = store.addRun(10, RightKeySorted -> bufferOf(at(2))).head.local
      second.release()
      store.dropThrough(RightKeySorted, 2)
      assertThrows[TailraceStateException](store.commit())
      store.abort()
      eventually(timeout(Span(60, Seconds)))(assert(!local.file.exists))
    }
    assert(!checkpointFiles.exists(_.endsWith(".manifest")))
  }

  test("a batch goes on while its run is copied, and the commit waits for the copy") {
    val provider = newProvider(hadoop = WatchedFiles.configure(hadoopConf()))
    val store = open(provider, 0)
    HeldWrite.during(".run") { upload =>
      store.addRun(10, LeftTimeSorted -> bufferOf(at(1, 2)))
      upload.awaitBegin()
      assert(rowsOf(store, LeftTimeSorted) == at(1, 2))
      val committing = new Thread(() => { store.commit(); () })
      committing.start()
      committing.join(200)
      assert(committing.isAlive && !store.hasCommitted)
      assert(!checkpointFiles.exists(_.endsWith(".manifest")))
      upload.release()
      committing.join(60000)
      assert(store.hasCommitted)
    }
    val next = reopen(1)
    assert(rowsOf(next, LeftTimeSorted) == at(1, 2))
    next.abort()
  }

  test("abort while a run is copied: the local file stays until the copy has ended, then it is gone") {
    val provider = newProvider(hadoop = WatchedFiles.configure(hadoopConf()))
    val store = open(provider, 0)
    HeldWrite.during(".run") { upload =>
      val local = store.addRun(10, LeftTimeSorted -> bufferOf(at(1))).head.local.file
      upload.awaitBegin()
      store.abort()
      assert(local.exists)
      // Its successor isn't held up by it.
      val second = open(provider, 0)
      assert(rowsOf(second, LeftTimeSorted).isEmpty)
      second.abort()
      upload.release()
      eventually(timeout(Span(60, Seconds)))(assert(!local.exists))
    }
    assert(!checkpointFiles.exists(_.endsWith(".manifest")))
  }

  test("abort while a run's copy fails: the local file is gone all the same") {
    val provider = newProvider(hadoop = WatchedFiles.configure(hadoopConf()))
    val store = open(provider, 0)
    HeldWrite.during(".run", fails = true) { upload =>
      val local = store.addRun(10, LeftTimeSorted -> bufferOf(at(1))).head.local.file
      upload.awaitBegin()
      store.abort()
      upload.release()
      eventually(timeout(Span(60, Seconds)))(assert(!local.exists))
    }
    assert(!checkpointFiles.exists(_.endsWith(".run")))
  }

  test("a store that has committed or aborted takes no more") {
    val done = storeWith(at(1))
    done.commit()
    val aborted = reopen(1)
    aborted.abort()
    Seq(done, aborted).foreach { store =>
      assertThrows[IllegalArgumentException](store.addRun(10, LeftTimeSorted -> bufferOf(at(1))))
      assertThrows[IllegalArgumentException](store.dropThrough(LeftTimeSorted, 1))
      assertThrows[IllegalArgumentException](store.markExpired(LeftTimeSorted, 1, _ => 1))
      assertThrows[IllegalArgumentException](store.commit())
    }
    done.abort()
    assert(done.hasCommitted)
  }

  test("buffers without rows make no run") {
    val store = open(newProvider(), 0)
    assert(store.addRun(10, LeftTimeSorted -> newBuffer(), RightKeySorted -> newBuffer()).isEmpty)
    store.commit()
    assert(checkpointFiles == Set("1.manifest"))
  }

  test("a section goes when its newest row is reached, not before, and its rows are counted") {
    val store = storeWith(at(1, 9), at(3, 5, 12))
    assert(rowCount(store) == 5)
    assert(store.dropThrough(RightKeySorted, 4) == 0)
    assert(store.dropThrough(RightKeySorted, 5) == 2)
    assert(rowsOf(store, RightKeySorted) == at(12))
    assert(rowsOf(store, LeftTimeSorted) == at(1, 9))
    assert(rowCount(store) == 3)
    store.commit()
    val next = reopen(1)
    assert(rowsOf(next, RightKeySorted) == at(12))
    next.abort()
  }

  test(
    "expired rows count no more, also after a reload, and aren't counted again when their section is dropped"
  ) {
    val store = storeWith(at(1, 2, 8))
    store.markExpired(LeftTimeSorted, 2, _ => 2)
    assert(store.expiredThrough == 2)
    assert(rowCount(store) == 1)
    store.commit()
    val next = reopen(1)
    assert(next.expiredThrough == 2)
    assert(rowCount(next) == 1)
    next.markExpired(LeftTimeSorted, 8, _ => 1)
    assert(rowCount(next) == 0)
    assert(next.dropThrough(LeftTimeSorted, 8) == 0)
    next.commit()
    assert(reopenedExpiry(2) == 8)
  }

  private def reopenedExpiry(version: Long): Long = {
    val store = reopen(version)
    try store.expiredThrough
    finally store.abort()
  }

  test("what has expired is that of one store only, and never goes back") {
    val store = storeWith(at(5), at(5))
    store.markExpired(LeftTimeSorted, 5, _ => 1)
    store.markExpired(LeftTimeSorted, 3, _ => 0)
    assert(store.expiredThrough == 5)
    assert(rowCount(store) == 1)
    assert(store.dropThrough(RightKeySorted, 5) == 1)
    store.abort()
  }

  test("when all has expired the state is empty: no section, no run, no byte") {
    storeWith(at(1, 11), at(2, 12)).commit()
    val store = reopen(1)
    // A run that dies in its own batch is in the checkpoint before that is known; no manifest names it.
    store.addRun(10, RightKeySorted -> bufferOf(at(20)))
    store.markExpired(LeftTimeSorted, 30, live => live.section.rows)
    store.dropThrough(LeftTimeSorted, 30)
    store.dropThrough(RightKeySorted, 30)
    store.commit()
    val empty = reopen(2)
    assert(StoreKind.all.flatMap(empty.sectionsOf).isEmpty)
    assert(!empty.iterator(StateStore.DEFAULT_COL_FAMILY_NAME).hasNext)
    assert(rowCount(empty) == 0)
    assert(empty.metrics.memoryUsedBytes == 0)
    empty.commit()
    reopen(3).commit()
    reopen(4).commit()
    val provider = newProvider(storeConf(retain(1)))
    provider.doMaintenance()
    assert(checkpointFiles == Set("3.manifest", "4.manifest", "5.manifest"))
  }

  test("bytes are those of a store's live sections") {
    val store = storeWith(at(1), at(2, 30))
    val all = store.bytesOf(RightKeySorted)
    assert(all == at(2, 30).map(r => r.layout.length).sum)
    store.dropThrough(RightKeySorted, 2)
    assert(store.bytesOf(RightKeySorted) < all)
    assert(store.bytesOf(StoreKind.LeftKeySorted) == 0)
    store.commit()
    assert(store.metrics.memoryUsedBytes > 0)
  }

  test("sequence numbers go up from batch to batch") {
    val store = open(newProvider(), 0)
    val first = Seq.fill(3)(store.newSeq())
    assert(first == first.distinct.sorted)
    store.commit()
    val next = reopen(1)
    assert(next.newSeq() > first.last)
    next.abort()
  }

  test("each operation of Spark's row interface is refused by its name") {
    val store = open(newProvider(), 0)
    val row = new UnsafeRow(0)
    val schema = new StructType()
    val operations = Seq[(String, () => Any)](
      "get" -> (() => store.get(row, "f")),
      "valuesIterator" -> (() => store.valuesIterator(row, "f")),
      "prefixScan" -> (() => store.prefixScan(row, "f")),
      "prefixScanWithMultiValues" -> (() => store.prefixScanWithMultiValues(row, "f")),
      "iteratorWithMultiValues" -> (() => store.iteratorWithMultiValues("f")),
      "removeColFamilyIfExists" -> (() => store.removeColFamilyIfExists("f")),
      "createColFamilyIfAbsent" -> (() =>
        store.createColFamilyIfAbsent("f", schema, schema, NoPrefixKeyStateEncoderSpec(schema), false, false)
      ),
      "put" -> (() => store.put(row, row, "f")),
      "putList" -> (() => store.putList(row, Array(row), "f")),
      "remove" -> (() => store.remove(row, "f")),
      "merge" -> (() => store.merge(row, row, "f")),
      "mergeList" -> (() => store.mergeList(row, Array(row), "f"))
    )
    operations.foreach { case (name, operation) =>
      intercept[Exception](operation()) match {
        case e: SparkThrowable =>
          assert(e.getCondition == "TAILRACE_STATE_OPERATION_UNSUPPORTED")
          assert(e.getMessageParameters.get("operation") == name)
        case e => throw e
      }
    }
    store.abort()
  }
}
