package io.tailrace.windows

import java.lang.ref.Reference
import java.nio.file.Files
import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.hadoop.fs.Path
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Seconds, Span}

import io.tailrace.common.TailraceStateException

/** The rows that land in a folder, and the queries that may write it. */
final class LandingFolderSuite extends LandingSuite {

  test("rows come into their windows, late ones and those without a time aside, and nothing is left over") {
    DyingFileSystem.live(Int.MaxValue)
    assert(run(0) == batches.size)
    assert(found == expected)
    checkMarkers()
    assert(names("w=19700101T000000.000050Z") == Seq("_SUCCESS"))
    assert(names("_tailrace/batches") == Seq("3.batch"))
    assert(names("_tailrace/closed") == Seq("2.closed"))
    assert(names("_tailrace/staging").isEmpty)
    assert(opened().state == OpenWindows(Windows(10, 0), Some(60), scala.collection.immutable.TreeMap.empty))
  }

  test("a folder is of one query and has one kind of windows") {
    landed(0)
    assert(condition(opened(20)) == "TAILRACE_WINDOWS_FOLDER")
    assert(condition(opened().begin("another", 1)) == "TAILRACE_WINDOWS_FOLDER")
    val running = WrittenFolders.open(root, settings(), conf, () => true)
    assert(condition(opened()) == "TAILRACE_WINDOWS_FOLDER", "while its query runs")
    Reference.reachabilityFence(running)
  }

  test("a process keeps nothing of folders that nobody writes any more") {
    (1 to 200).foreach { n =>
      val path = new Path(root, n.toString)
      WrittenFolders.open(path, settings().copy(path = path.toString), conf, () => false)
    }
    eventually(timeout(Span(20, Seconds))) {
      System.gc()
      assert(WrittenFolders.size < 20)
    }
  }

  test("a batch that is made of other data, or is before the newest, is refused") {
    val folder = landed(2)
    assert(folder.landed(2, "offsets of 2").map(_.rows).contains(10))
    assert(folder.landed(3, "any").isEmpty)
    assert(condition(folder.landed(2, "others")) == "TAILRACE_WINDOWS_ROLLED_BACK")
    assert(condition(folder.landed(1, "offsets of 1")) == "TAILRACE_WINDOWS_ROLLED_BACK")
  }

  test(
    "a query that has landed in another folder since is refused by what it has done, and not by a lost file"
  ) {
    landed(0)
    val folder = opened()
    folder.begin("query", 20)
    val error = intercept[TailraceStateException](folder.landed(20, "offsets of 20"))
    assert(error.getCondition == "TAILRACE_WINDOWS_LEFT")
    val told = error.getMessageParameters
    assert(Seq("batch", "newest", "path").map(told.get(_)) == Seq("20", "0", root.toString))
  }

  test("a query whose batches have landed elsewhere begins no other folder, nor the same one emptied") {
    DyingFileSystem.live(Int.MaxValue)
    assert(condition(opened().begin("query", 1)) == "TAILRACE_WINDOWS_FOLDER")
    assert(names("") == Nil, "nothing is written")
    landed(0)
    assert(opened().landed(1, "offsets of 1").isEmpty)
    emptyDirectory()
    assert(condition(opened().begin("query", 1)) == "TAILRACE_WINDOWS_FOLDER")
    // A first batch that wasn't committed runs again, wherever it landed.
    opened().begin("query", 0)
  }

  test("the files of a batch move to their places side by side") {
    DyingFileSystem.live(Int.MaxValue)
    val folder = opened()
    folder.begin("query", 0)
    val (staging, files) = stage(folder, 2)
    // Each move waits for all others.
    val all = new CountDownLatch(files.size)
    DyingFileSystem.onRename = to =>
      if (!to.toString.contains("_tailrace")) {
        all.countDown()
        assert(all.await(60, TimeUnit.SECONDS))
      }
    try folder.land(0, "offsets of 0", staging, files): Unit
    finally DyingFileSystem.onRename = _ => ()
    assert(files.size == 4 && all.getCount == 0)
  }

  test("a folder that was moved with its own files goes on") {
    landed(0).close(10, reports)
    val out = directory.toPath.resolve("out")
    val elsewhere = directory.toPath.resolve("elsewhere")
    Files.move(out, elsewhere)
    assert(condition(opened().begin("query", 1)) == "TAILRACE_WINDOWS_FOLDER")
    val path = new Path(s"dying://$elsewhere")
    val moved = WrittenFolders.open(path, settings().copy(path = path.toString), conf, () => false)
    moved.begin("query", 1)
    assert(moved.landed(1, "offsets of 1").isEmpty)
  }

  test("one of two writers is refused, in this process and in another one") {
    val first = landed(0)
    val second = opened()
    assert(condition(first.close(10, reports)) == "TAILRACE_WINDOWS_TWO_WRITERS")
    Files.writeString(directory.toPath.resolve("out/_tailrace/batches/2.batch"), "another's")
    val (staging, files) = stage(second, 2)
    assert(condition(second.land(2, "", staging, files)) == "TAILRACE_WINDOWS_TWO_WRITERS")
    assert(second.close(60, reports).isEmpty, "nothing closes while it isn't known what has landed")
  }

  /** The folder as another process opens it, which doesn't know of this one. */
  private def openedElsewhere(): LandingFolder = {
    val slot = new WrittenFolders.Slot
    val folder = new LandingFolder(root, settings(), conf, slot)
    folder.open()
    slot.take(folder, () => false)
    folder.begin("query", 0)
    folder
  }

  private def land(folder: LandingFolder, batch: Int): BatchFile = {
    val (staging, files) = stage(folder, batch)
    folder.land(batch.toLong, s"offsets of $batch", staging, files)
  }

  test("a driver that was overtaken lands no row twice, though the file of its batch is gone") {
    DyingFileSystem.live(Int.MaxValue)
    val (late, other) = (openedElsewhere(), openedElsewhere())
    val (staging, files) = stage(late, 0)
    (0 to 2).foreach(land(other, _))
    assert(names("_tailrace/batches") == Seq("2.batch"))
    val before = found
    assert(condition(late.land(0, "offsets of 0", staging, files)) == "TAILRACE_WINDOWS_TWO_WRITERS")
    assert(found == before)
    land(openedElsewhere(), 3)
    assert(names("_tailrace/batches") == Seq("3.batch"))
  }

  test("a driver lands nothing in windows that another one has closed since it looked") {
    landed(0)
    val (first, second) = (openedElsewhere(), openedElsewhere())
    assert(first.close(10, reports).size == 1)
    val before = found
    // Its row before 10 would be in time.
    val (staging, files) = stage(second, 2)
    assert(condition(second.land(2, "offsets of 2", staging, files)) == "TAILRACE_WINDOWS_TWO_WRITERS")
    assert(found == before)
  }

  test("a driver marks no window after another one has gone on with the next batch") {
    landed(0)
    val (first, second) = (openedElsewhere(), openedElsewhere())
    land(second, 1)
    assert(condition(first.close(10, reports)) == "TAILRACE_WINDOWS_TWO_WRITERS")
    assert(!names("w=19700101T000000Z").contains("_SUCCESS"))
    // The next start marks it.
    openedElsewhere()
    assert(names("w=19700101T000000Z").contains("_SUCCESS"))
  }
}
