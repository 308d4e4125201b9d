package io.tailrace.state

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{FileFault, FileFaults, FileStep, StoreFixture, TestRow, WatchedFiles}

/** Two tasks that make the same version on two executors: the one that Spark has given up, the zombie, and
  * its successor, whose commit is the one that counts. Both have read the same input.
  */
final class ZombieSuite extends AnyFunSuite with StoreFixture {
  private val kind = StoreKind.LeftTimeSorted

  private final class Executor(ids: Boolean) {
    private val conf = storeConf(retain(1) +: Option.when(ids)(CheckpointIds).toSeq: _*)
    val provider: OwnStoreProvider =
      newProvider(conf, hadoop = WatchedFiles.configure(withoutInlineRuns(hadoopConf())))

    def open(version: Long, id: Option[String]): TailraceStateStore =
      provider.getStore(version, id).asInstanceOf[TailraceStateStore]

    def read(version: Long, id: Option[String]): Seq[TestRow] = {
      val store = open(version, id)
      try rowsOf(store, kind)
      finally store.abort()
    }
  }

  private def rowOf(version: Long): TestRow = TestRow.of(s"k$version", version, version, s"made by $version")

  private def add(store: TailraceStateStore): TailraceStateStore = {
    store.addRun(1000, kind -> bufferOf(rowOf(store.version)))
    store
  }

  private def commit(store: TailraceStateStore): Option[String] = {
    store.commit()
    store.getStateStoreCheckpointInfo().stateStoreCkptId
  }

  /** Versions from `from` to `to`, as batches that follow make them. @return the id of the last one */
  private def goOn(executor: Executor, from: Long, id: Option[String], to: Long): Option[String] =
    (from until to).foldLeft(id)((last, version) => commit(add(executor.open(version, last))))

  private def rows(versions: Long): Seq[TestRow] = (0L until versions).map(rowOf)

  Seq(false, true).foreach { ids =>
    val format = s"checkpoint format ${if (ids) 2 else 1}"

    def check(name: String)(body: (Executor, Executor, Option[String]) => Unit): Unit =
      test(s"$name: $format") {
        val (first, second) = (new Executor(ids), new Executor(ids))
        body(first, second, commit(add(first.open(0, None))))
      }

    /** Checks that after more batches no file of a zombie is left. */
    def checkPurged(executor: Executor, version: Long, id: Option[String]): Unit = {
      val last = goOn(executor, version, id, version + 3)
      // A later one finds files of other executors.
      (1 to 33).foreach(_ => executor.provider.maintain())
      assert(new Executor(ids).read(version + 3, last) == rows(version + 3))
      assert(checkpointFiles.count(_.endsWith(".manifest")) == (if (ids) 2 else 3))
      assert(checkpointFiles.count(_.endsWith(".run")) == version + 3)
      assert(!storeDirectory.list.exists(_.endsWith(".tmp")))
    }

    check("a late commit changes nothing of what its successor has made, and is purged") {
      (first, second, base) =>
        val zombie = add(first.open(1, base))
        val winner = commit(add(second.open(1, base)))
        val next = second.open(2, winner)
        commit(zombie)
        assert(new Executor(ids).read(2, winner) == rows(2))
        assert(second.read(2, winner) == rows(2))
        val three = commit(add(next))
        assert(new Executor(ids).read(3, three) == rows(3))
        checkPurged(second, 3, three)
    }

    check("a commit before the successor's is replaced by it, and is purged") { (first, second, base) =>
      val late = add(second.open(1, base))
      commit(add(first.open(1, base)))
      val winner = commit(late)
      assert(first.read(2, winner) == rows(2))
      assert(new Executor(ids).read(2, winner) == rows(2))
      checkPurged(second, 2, winner)
    }

    check("a commit of a version that has been purged long since is purged, too") { (first, second, base) =>
      val zombie = add(first.open(1, base))
      val last = goOn(second, 1, base, 5)
      second.provider.maintain()
      commit(zombie)
      assert(new Executor(ids).read(5, last) == rows(5))
      checkPurged(second, 5, last)
    }

    check("what a zombie leaves that died in its commit is purged") { (first, second, base) =>
      Seq(FileStep.Rename -> "run$", FileStep.Create -> "manifest$", FileStep.Rename -> "manifest$").foreach {
        case (step, file) =>
          val zombie = first.open(1, base)
          // With what it adds: a run is on its way from then on.
          val (_, fired) = FileFaults.during(FileFault(step, file.r)) {
            intercept[TailraceStateException](add(zombie).commit())
          }
          assert(fired.size == 1)
          zombie.abort()
      }
      assert(storeDirectory.list.exists(_.endsWith(".tmp")))
      checkPurged(second, 2, commit(add(second.open(1, base))))
    }
  }
}
