package io.tailrace.replay

import java.io.File
import java.nio.file.Files
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.TempDirectory

final class MarkLogSuite extends AnyFunSuite with TempDirectory {
  private def log = new MarkLog(new Path(directory.toURI), new Configuration, ReplaySettings("r"))
  private def attempt() = UUID.randomUUID.toString

  private def marks(entries: (Long, Long)*): MarkTable = {
    val table = new MarkTable(0)
    entries.foreach { case (pid, offset) => table.add(pid, 0, offset) }
    table
  }

  private def batch(number: Long, tasks: MarkTable*): Unit =
    log.write(number, tasks.map(t => MarkFile.encodeTable(t, 0, t.size, t.disorder))): Unit

  private def file(number: Long) = new File(directory, s"$number.marks")

  private def found(number: Long, known: Option[(Long, MarkTable)] = None): Map[Long, Long] = {
    val table = log.load(log.before(number), known)
    (0 until table.size).map(e => table.pid(e) -> table.mark(e)).toMap
  }

  private def refused(condition: String)(body: => Any): Unit =
    assert(intercept[TailraceStateException](body).getCondition == condition)

  test("a batch begins with the marks that all batches before it have moved") {
    assert(found(0).isEmpty)
    batch(0, marks(1L -> 10L), marks(2L -> 20L))
    batch(1, marks(1L -> 15L), marks())
    batch(2, marks(3L -> 5L))
    assert(found(1) == Map(1L -> 10L, 2L -> 20L))
    assert(found(3) == Map(1L -> 15L, 2L -> 20L, 3L -> 5L))
    assert(found(3, Some(1L -> marks(1L -> 15L, 2L -> 20L))) == found(3))
  }

  /** The file of one task, as earlier versions wrote it. */
  private def ofTask(number: Long, attempt: String, task: Int, tasks: Int, moved: MarkTable): Unit = {
    val file = new File(directory, s"$number/$attempt-$task-of-$tasks.marks")
    Files.createDirectories(file.getParentFile.toPath)
    val place = s"${new Path(directory.toURI).getName}/$number/${file.getName}"
    Files.write(file.toPath, MarkFile.encode(Seq(MarkFile.encodeTable(moved, 0, moved.size, 0)), place)): Unit
  }

  test("of an earlier version, an attempt that died is ignored, and never mixed with another") {
    batch(0, marks(1L -> 10L), marks(2L -> 20L))
    ofTask(1, attempt(), 0, 2, marks(1L -> 99L))
    refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(found(2))
    ofTask(1, attempt(), 1, 2, marks(2L -> 99L))
    refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(found(2))
    val complete = attempt()
    Seq(marks(1L -> 11L), marks(2L -> 21L), marks()).zipWithIndex.foreach { case (t, i) =>
      ofTask(1, complete, i, 3, t)
    }
    assert(found(2) == Map(1L -> 11L, 2L -> 21L))
    batch(2, marks(1L -> 12L))
    assert(found(3) == Map(1L -> 12L, 2L -> 21L))
  }

  test("a batch that runs again, after an earlier version too, replaces its file") {
    batch(0, marks(1L -> 10L))
    val old = attempt()
    ofTask(1, old, 0, 1, marks(1L -> 11L))
    (1 to 2).foreach(_ => batch(1, marks(1L -> 12L)))
    assert(found(2) == Map(1L -> 12L))
    assert(directory.list.toSet == Set("0.marks", "1", "1.marks"))
  }

  test(
    "a batch with a file missing, or all files, is an error each time, and not an empty table"
  ) {
    (0L to 3L).foreach(b => batch(b, marks(b -> b)))
    val all = found(4)
    (0L to 3L).foreach { b =>
      val aside = new File(directory, "aside")
      assert(file(b).renameTo(aside))
      (1 to 2).foreach(_ => refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(found(4)))
      assert(aside.renameTo(file(b)))
    }
    assert(found(4) == all)
    directory.listFiles.foreach(f => TempDirectory.delete(f.toPath))
    (1 to 2).foreach(_ => refused("TAILRACE_REPLAY_MARKS_MISSING")(found(4)))
  }

  test("a missing snapshot is an error, unless the one before it and all files since then are there") {
    (0L to 9L).foreach(b => batch(b, marks(b % 3 -> b)))
    val all = found(10)
    log.snapshot(4, log.load(log.before(5), None), retainFrom = 4)
    log.snapshot(9, log.load(log.before(10), None), retainFrom = 4)
    assert(new File(directory, "9.snapshot").delete() && found(10) == all)
    assert(new File(directory, "4.snapshot").delete())
    refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(found(10))
  }

  test("a filter begins without missing marks when a user wants it, and only once") {
    batch(3, marks(1L -> 10L))
    refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(found(4))
    assert(log.beginAnew(4) == MarkFiles(Some(3), Nil, 4) && found(4).isEmpty)
    batch(4, marks(2L -> 20L))
    assert(found(5) == Map(2L -> 20L))
    assert(new File(directory, "3.snapshot").delete())
    refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(found(5))
  }

  test("files of two batches swapped are errors that name them") {
    (0L to 1L).foreach(b => batch(b, marks(b -> b)))
    val all = found(2)
    def swap(): Unit = {
      val (first, second) = (Files.readAllBytes(file(0).toPath), Files.readAllBytes(file(1).toPath))
      Files.write(file(0).toPath, second)
      Files.write(file(1).toPath, first): Unit
    }
    swap()
    refused("TAILRACE_STATE_FILE_CORRUPT")(found(2))
    swap()
    assert(found(2) == all)
  }

  test("records of one origin in two tasks of a batch are an error that names it") {
    batch(0, marks(1L -> 10L), marks(1L -> 12L))
    refused("TAILRACE_REPLAY_ORIGIN_SPLIT")(found(1))
  }

  test("a snapshot replaces all files before it, which are deleted when no batch may need them again") {
    (0L to 9L).foreach(b => batch(b, marks(b % 3 -> b)))
    val all = found(10)
    log.snapshot(4, log.load(log.before(5), None), retainFrom = 0)
    assert(found(10) == all)
    val leftOvers = Seq(".3.marks.0a-1.tmp", ".9.marks.0a-2.tmp").map(new File(directory, _))
    leftOvers.foreach(file => assert(file.createNewFile()))
    log.snapshot(9, log.load(log.before(10), None), retainFrom = 6)
    assert(leftOvers.map(_.exists) == Seq(false, true) && leftOvers.last.delete())
    assert(directory.list.toSet == (5 to 9).map(b => s"$b.marks").toSet ++ Set("4.snapshot", "9.snapshot"))
    assert(found(10) == all)
    assert(found(7) == Map(0L -> 6L, 1L -> 4L, 2L -> 5L))
    batch(10, marks(7L -> 7L))
    assert(found(11) == all + (7L -> 7L))
  }

  test("the files of the next batch are known when this one's is written") {
    (0L to 4L).foreach(b => batch(b, marks(b -> b)))
    assert(log.before(4).next == log.before(5))
    assert(log.before(5).deltas == (0L to 4L).map(b => b -> Seq(s"$b.marks")))
    val snapshot = log.snapshot(4, marks(7L -> 7L), retainFrom = -10)
    assert(snapshot == log.before(5) && found(5) == Map(7L -> 7L))
    batch(5, marks())
    assert(snapshot.next == log.before(6))
  }

  test("damage to a file is an error that names it") {
    batch(0, marks(1L -> 10L))
    val bytes = Files.readAllBytes(file(0).toPath)
    Files.write(file(0).toPath, bytes.updated(20, (bytes(20) ^ 1).toByte))
    refused("TAILRACE_STATE_FILE_CORRUPT")(found(1))
  }

  test("the cache gives each batch its table, late tasks too, and reads only what is new") {
    batch(0, marks(1L -> 10L))
    batch(1, marks(1L -> 11L))
    val filter = UUID.randomUUID.toString
    def cached(number: Long): MarkTable = MarkCache.get(filter, log.before(number), log)
    val first = cached(1)
    assert(cached(1) eq first)
    val wantedBefore = log.before(2)
    assert(cached(2).mark(0) == 11 && first.mark(0) == 10)
    assert(file(0).delete())
    assert(MarkCache.get(filter, wantedBefore, log).mark(0) == 11)
    batch(2, marks(1L -> 12L))
    val wanted = wantedBefore.next
    assert(MarkCache.get(filter, wanted, log).mark(0) == 12)
    assert(MarkCache.get(filter, wanted.copy(deltas = Nil, batch = 1), log).size == 0)
    assert(MarkCache.get(filter, wanted, log).mark(0) == 12)
  }

  test("what the last batch has moved is taken as it was sent, and no file is opened") {
    batch(0, marks(1L -> 10L))
    val filter = UUID.randomUUID.toString
    val begun = log.before(1)
    MarkCache.get(filter, begun, log)
    val sent = log.write(1, Seq(MarkFile.encodeTable(marks(1L -> 11L), 0, 1, 0)))
    directory.listFiles.foreach(f => assert(f.delete()))
    assert(MarkCache.get(filter, begun.next, log, Some(sent)).mark(0) == 11)
    MarkCache.put(filter, 2, marks(1L -> 12L))
    assert(MarkCache.get(filter, begun.next.next, log).mark(0) == 12)
  }
}
