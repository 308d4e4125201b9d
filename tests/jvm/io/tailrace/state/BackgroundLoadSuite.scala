package io.tailrace.state

import java.io.IOException
import java.nio.file.Files
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, TimeUnit}

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import io.tailrace.common.{TailraceConf, TailraceStateException}
import io.tailrace.testkit.{Damage, FileStep, TestRow, WatchedFiles}

/** A partition whose runs come from the checkpoint while its tasks go on, and one whose runs don't all have
  * room on the local disk.
  */
final class BackgroundLoadSuite extends OwnStoreFixture with Eventually {
  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(20, Seconds), Span(10, Millis))

  private def background(localBytes: Long = TailraceConf.LocalRunBytes.default): Configuration = {
    LocalDisk.configure(localBytes)
    withLittleDisk(withoutInlineRuns(WatchedFiles.configure(hadoopConf())), localBytes)
  }

  private def newBackground(): OwnStore = new OwnStore(storeId, storeConf(), background())

  override protected def afterEach(): Unit = {
    LocalDisk.configure(TailraceConf.LocalRunBytes.default)
    super.afterEach()
  }

  private def runs: Seq[String] =
    checkpointFiles.filter(_.endsWith(".run")).toSeq.sortBy(_.takeWhile(_ != '-').toInt)

  /** Versions of an executor that has ended. */
  private def written(batches: Int): Seq[TestRow] = {
    val owner = newBackground()
    val rows = (0L until batches.toLong).map(step(owner, _))
    owner.close()
    rows
  }

  /** Holds each reader of some runs until `body` has called the function. */
  private def holding[T](names: String*)(body: (() => Unit) => T): T = {
    val goOn = new CountDownLatch(1)
    val holder: WatchedFiles.Watcher = (step, path) =>
      if (step == FileStep.Open && names.contains(path.getName)) assert(goOn.await(20, TimeUnit.SECONDS))
    WatchedFiles.watchedBy(holder) {
      try body(() => goOn.countDown())
      finally goOn.countDown()
    }
  }

  private def inThread(body: => Unit): Thread = {
    val thread = new Thread(() => body)
    thread.start()
    thread
  }

  test("a batch that reads none of the runs commits while they are still being copied") {
    val rows = written(2)
    val owner = newBackground()
    holding(runs: _*) { goOn =>
      val added = step(owner, 2)
      assert(checkpointFiles.exists(StateFileNames.manifestVersion(_).contains(3)))
      val reader = load(owner, 3)
      assert(reader.load == StateLoad.None)
      var seen = Seq.empty[TestRow]
      val reading = inThread { seen = rowsOf(reader, kind) }
      eventually(assert(reading.getState == Thread.State.WAITING))
      goOn()
      reading.join()
      assert(seen == rows :+ added)
      assert(reader.load.bytes == 0 && reader.load.millis > 0)
      reader.abort()
    }
  }

  test("a reader waits for the run that it reads, not for the others") {
    val rows = written(3)
    val owner = newBackground()
    holding(runs(1)) { _ =>
      val store = load(owner, 3)
      val sections = store.sectionsOf(kind)
      assert(Seq(0, 2).flatMap(i => TestRow.all(sections(i))) == Seq(rows.head, rows(2)))
      store.abort()
    }
  }

  test("the bytes of a load are those of the runs that were not here, also in the background") {
    written(2)
    val bytes = runs.map(stored(_).length).sum
    val owner = newBackground()
    holding(runs: _*) { _ =>
      val store = load(owner, 2)
      assert(store.load.bytes == bytes)
      store.abort()
    }
  }

  test("a run that is missing or damaged stops the reader, and the next batch, by name, until it is mended") {
    val rows = written(2)
    val run = stored(runs.head)
    val whole = Files.readAllBytes(run.toPath)
    Seq(
      "TAILRACE_STATE_FILE_CORRUPT" -> (() => Damage.flipMiddle(run)),
      "TAILRACE_STATE_FILE_MISSING" -> { () =>
        assert(run.delete())
      }
    ).foreach { case (condition, damage) =>
      damage()
      val owner = newBackground()
      val store = load(owner, 2)
      (1 to 2).foreach { _ =>
        val error = intercept[TailraceStateException](rowsOf(store, kind))
        assert(error.getCondition == condition)
        assert(error.getMessageParameters.get("file").endsWith(run.getName))
      }
      val row = TestRow.of("k", 9, 9)
      add(store, row).commit()
      (1 to 2).foreach(_ =>
        assert(intercept[TailraceStateException](load(owner, 3)).getCondition == condition)
      )
      Files.write(run.toPath, whole)
      assert(readAndClose(load(owner, 3)) == rows :+ row)
      owner.close()
    }
  }

  test("a file system that fails for a moment fails no batch") {
    val rows = written(2)
    val owner = newBackground()
    @volatile var failed = false
    val failing: WatchedFiles.Watcher = (step, path) =>
      if (step == FileStep.Read && path.getName == runs.head && !failed) {
        failed = true
        throw new IOException("away")
      }
    WatchedFiles.watchedBy(failing) {
      val store = load(owner, 2)
      eventually(assert(failed))
      store.abort()
      eventually(assert(readAndClose(load(owner, 2)) == rows))
    }
  }

  test("a store that is given up while runs are being copied leaves no local file") {
    written(2)
    val owner = newBackground()
    holding(runs.head) { goOn =>
      load(owner, 2).abort()
      owner.close()
      goOn()
    }
    eventually(assert(Option(owner.localFile("x").getParentFile.list).forall(_.isEmpty)))
  }

  test("a task that is killed while it waits ends at once, and its successor reads on") {
    val rows = written(2)
    val owner = newBackground()
    holding(runs: _*) { goOn =>
      val store = load(owner, 2)
      @volatile var interrupted = false
      val killed = inThread {
        try rowsOf(store, kind): Unit
        catch { case _: InterruptedException => interrupted = true }
      }
      eventually(assert(killed.getState == Thread.State.WAITING))
      killed.interrupt()
      killed.join()
      assert(interrupted)
      store.abort()
      goOn()
      assert(readAndClose(load(owner, 2)) == rows)
    }
  }

  test("runs beyond the bytes that may be here are emptied, and come back when they are read") {
    val owner = new OwnStore(storeId, storeConf(), background(localBytes = 0))
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
    val owner = new OwnStore(storeId, storeConf(), background(localBytes = 0))
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
    val owner = new OwnStore(storeId, storeConf(), conf)
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
    val owner = new OwnStore(storeId, storeConf(), conf)
    val rows = (0L to 4L).map(step(owner, _))
    assert(readAndClose(load(owner, 5)) == rows)
  }

  test("many readers of many versions at a time read what was written, with little room") {
    val rows = written(10)
    val bytes = runs.map(stored(_).length).sum
    val owner = new OwnStore(storeId, storeConf(), background(localBytes = bytes / 3))
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
    val before = LocalDisk.bytes
    val owner = newBackground()
    (0L to 2L).foreach(step(owner, _))
    val bytes = runs.map(stored(_).length).sum
    assert(LocalDisk.bytes == before + bytes)
    val other = newBackground()
    val store = load(other, 3)
    assert(LocalDisk.bytes == before + 2 * bytes)
    owner.close()
    other.close()
    store.abort()
    assert(LocalDisk.bytes == before)
  }
}
