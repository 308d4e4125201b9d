package io.tailrace.state

import java.io.IOException
import java.nio.file.Files
import java.util.concurrent.{CountDownLatch, TimeUnit}

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{Damage, FileStep, TestRow, WatchedFiles}

/** A partition whose runs come from the checkpoint while its tasks go on. */
final class BackgroundLoadSuite extends ComingRunsFixture {

  test("a batch that reads none of the runs commits while they are still being copied") {
    val rows = written(2)
    val owner = newBackground()
    holding(runs: _*) { goOn =>
      val added = step(owner, 2)
      assert(checkpointFiles.exists(StateFileNames.manifestVersion(_).contains(3)))
      val reader = load(owner, 3)
      assert(reader.load.bytes == 0)
      var seen = Seq.empty[TestRow]
      val reading = inThread { seen = rowsOf(reader, kind) }
      eventually(assert(reading.getState == Thread.State.WAITING))
      // The metric counts whole milliseconds.
      val waiting = System.nanoTime
      eventually(assert(System.nanoTime - waiting > 2000000))
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
      // Later, the copy may have failed before the task begins.
      val store = holding(run.getName)(_ => load(owner, 2))
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

  test("a store that was away for a while is asked for all failed runs at a time") {
    val rows = written(4)
    val owner = newBackground()
    val begun = new CountDownLatch(1)
    val away: WatchedFiles.Watcher = (step, path) =>
      if (step == FileStep.Open && path.getName.endsWith(".run")) {
        assert(begun.await(60, TimeUnit.SECONDS))
        throw new IOException("away")
      }
    WatchedFiles.watchedBy(away) {
      val store = load(owner, 4)
      begun.countDown()
      store.sectionsOf(kind).foreach(section => intercept[TailraceStateException](section.cursor()))
      store.abort()
    }
    val all = new CountDownLatch(runs.size)
    val together: WatchedFiles.Watcher = (step, path) =>
      if (step == FileStep.Open && path.getName.endsWith(".run")) {
        all.countDown()
        assert(all.await(60, TimeUnit.SECONDS))
      }
    assert(WatchedFiles.watchedBy(together)(readAndClose(load(owner, 4))) == rows)
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
}
