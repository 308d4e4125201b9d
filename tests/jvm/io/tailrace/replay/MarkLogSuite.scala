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

  private def batch(number: Long, tasks: MarkTable*): Unit = {
    val name = attempt()
    tasks.zipWithIndex.foreach { case (t, i) => log.write(number, name, i, tasks.size, t) }
  }

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

  test("an attempt that died is ignored, and never mixed with another") {
    batch(0, marks(1L -> 10L), marks(2L -> 20L))
    log.write(1, attempt(), 0, 2, marks(1L -> 99L))
    refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(found(2))
    log.write(1, attempt(), 1, 2, marks(2L -> 99L))
    refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(found(2))
    batch(1, marks(1L -> 11L), marks(2L -> 21L), marks())
    assert(found(2) == Map(1L -> 11L, 2L -> 21L))
  }

  test("a task that runs twice in a batch, retried or speculative, leaves one file, whole") {
    val name = attempt()
    (1 to 2).foreach(_ => log.write(0, name, 0, 2, marks(1L -> 10L)))
    log.write(0, name, 1, 2, marks(2L -> 20L))
    val both = (1 to 2).map(_ => new Thread(() => log.write(0, name, 1, 2, marks(2L -> 20L))))
    both.foreach(_.start())
    both.foreach(_.join())
    assert(new File(directory, "0").list.toSet == Set(s"$name-0-of-2.marks", s"$name-1-of-2.marks"))
    assert(found(1) == Map(1L -> 10L, 2L -> 20L))
  }

  test(
    "a batch with a file missing, or all files, is an error each time, and not an empty table"
  ) {
    (0L to 3L).foreach(b => batch(b, marks(b -> b)))
    val all = found(4)
    (0L to 3L).foreach { b =>
      val aside = new File(directory, "aside")
      assert(new File(directory, b.toString).renameTo(aside))
      (1 to 2).foreach(_ => refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(found(4)))
      assert(aside.renameTo(new File(directory, b.toString)))
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

  test("files of two tasks, of two batches, or of two attempts swapped are errors that name them") {
    val (one, two) = (attempt(), attempt())
    Seq(0L, 1L).foreach { b =>
      Seq(one, two).foreach { a =>
        (0 to 1).foreach(task => log.write(b, a, task, 2, marks(b * 2 + task -> b)))
      }
    }
    def path(b: Int, a: String, task: Int) = new File(directory, s"$b/$a-$task-of-2.marks").toPath
    def swapped(a: java.nio.file.Path, b: java.nio.file.Path)(body: => Unit): Unit = {
      val (inA, inB) = (Files.readAllBytes(a), Files.readAllBytes(b))
      Files.write(a, inB)
      Files.write(b, inA)
      body
      Files.write(a, inA)
      Files.write(b, inB)
      ()
    }
    val all = found(2)
    swapped(path(0, one, 0), path(0, one, 1)) {
      swapped(path(0, two, 0), path(0, two, 1))(refused("TAILRACE_STATE_FILE_CORRUPT")(found(2)))
    }
    swapped(path(0, one, 0), path(1, one, 0)) {
      swapped(path(0, two, 0), path(1, two, 0))(refused("TAILRACE_STATE_FILE_CORRUPT")(found(2)))
    }
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
    log.snapshot(9, log.load(log.before(10), None), retainFrom = 6)
    assert(directory.list.toSet == (5 to 9).map(_.toString).toSet ++ Set("4.snapshot", "9.snapshot"))
    assert(found(10) == all)
    assert(found(7) == Map(0L -> 6L, 1L -> 4L, 2L -> 5L))
    batch(10, marks(7L -> 7L))
    assert(found(11) == all + (7L -> 7L))
  }

  test("if the files of the batch before are known, only that batch's own files are looked for") {
    (0L to 4L).foreach(b => batch(b, marks(b -> b)))
    val known = log.before(4)
    (0L to 3L).foreach(b => TempDirectory.delete(new File(directory, b.toString).toPath))
    assert(log.before(5, Some(known)) == known.copy(deltas = log.before(5, Some(known)).deltas, batch = 5))
    assert(log.before(5, Some(known)).deltas.map(_._1) == (0L to 4L))
    refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(log.before(5, Some(known.copy(batch = 3))))
    val snapshot = log.snapshot(4, marks(7L -> 7L), retainFrom = -10)
    assert(snapshot == log.before(5) && found(5) == Map(7L -> 7L))
    refused("TAILRACE_REPLAY_MARKS_INCOMPLETE")(log.before(6, Some(snapshot)))
  }

  test("damage to a file is an error that names it") {
    batch(0, marks(1L -> 10L))
    val file = new File(directory, "0").listFiles.head
    val bytes = Files.readAllBytes(file.toPath)
    Files.write(file.toPath, bytes.updated(20, (bytes(20) ^ 1).toByte))
    refused("TAILRACE_STATE_FILE_CORRUPT")(found(1))
  }

  test("the cache gives each batch its table, late tasks too, and reads only new files") {
    batch(0, marks(1L -> 10L))
    batch(1, marks(1L -> 11L))
    val filter = UUID.randomUUID.toString
    def cached(number: Long): MarkTable = MarkCache.get(filter, log.before(number), log)
    val first = cached(1)
    assert(cached(1) eq first)
    val wantedBefore = log.before(2)
    assert(cached(2).mark(0) == 11 && first.mark(0) == 10)
    TempDirectory.delete(new File(directory, "0").toPath)
    assert(MarkCache.get(filter, wantedBefore, log).mark(0) == 11)
    batch(2, marks(1L -> 12L))
    val wanted = MarkFiles(None, Seq(0L -> Nil, 1L -> Nil, 2L -> new File(directory, "2").list.toSeq), 3)
    assert(MarkCache.get(filter, wanted, log).mark(0) == 12)
    assert(MarkCache.get(filter, wanted.copy(deltas = Nil, batch = 1), log).size == 0)
    assert(MarkCache.get(filter, wanted, log).mark(0) == 12)
  }
}
