package io.tailrace.state

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec
import org.apache.spark.sql.types.StructType
import org.scalacheck.Gen
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Seconds, Span}
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{FileFault, FileFaults, FileStep, HeldWrite, TestRow, WatchedFiles}

/** Commit, abort, and the upload of runs. */
final class TailraceStateStoreSuite extends StateStoreSuite with ScalaCheckPropertyChecks {
  import StoreKind.{LeftTimeSorted, RightKeySorted}

  // Each run has a file of its own, as large ones have.
  private def watched() = WatchedFiles.configure(withoutInlineRuns(hadoopConf()))

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

  test("no change of a store is visible before it commits") {
    val store = storeWith(at(1, 2))
    assert(checkpointFiles.isEmpty)
    store.commit()
    assert(store.hasCommitted)
    val next = reopen(1)
    assert(rowsOf(next, LeftTimeSorted) == at(1, 2))
    next.abort()
  }

  test("after abort only a run is left that no manifest names, which maintenance removes") {
    val provider = newProvider(storeConf(retain(1)), hadoop = watched())
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
    provider.maintain()
    assert(plainNames == Set("2.manifest", "3.manifest", "4.manifest"))
  }

  Seq(".run", ".manifest").foreach { suffix =>
    test(s"a commit that fails at its $suffix makes no version, and another store can make it") {
      val provider = newProvider(hadoop = watched())
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

  test("the commit fails if one of several uploads fails, also if all of its run has expired") {
    val provider = newProvider(hadoop = watched())
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
    val provider = newProvider(hadoop = watched())
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

  test("abort while a run is copied deletes the local file when the copy has ended") {
    val provider = newProvider(hadoop = watched())
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

  test("abort while a run's copy fails deletes the local file") {
    val provider = newProvider(hadoop = watched())
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

  test("a store that has committed or aborted refuses changes") {
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
    assert(plainNames == Set("1.manifest"))
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
