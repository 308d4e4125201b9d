package io.tailrace.recursion

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.TempDirectory

final class FeedbackLogSuite extends AnyFunSuite with TempDirectory {
  private val id = "a" * 32
  private def log = new FeedbackLog(new Path(directory.toURI), new Configuration)
  private def name(task: Int) = FeedbackName(0, id, task, 2)

  private def feed(task: Int): Unit = {
    val file = log.create(7, name(task))
    val writer = new FeedbackFile.Writer(() => file, FeedbackLog.place(log.file(7, name(task))), "columns")
    writer.add(1)(_.write(5))
    writer.end()
    log.close(file, 7, name(task))
  }

  private def fed: Seq[String] =
    log.files(7, FeedbackAttempt(0, id)).map(file => new Path(file._1).getName)

  test("the last attempt of a task counts, with rows or without") {
    feed(0)
    log.writeEmpty(7, name(1))
    assert(fed == Seq(name(0).toString) && log.fedBack(7).files.nonEmpty)
    log.writeEmpty(7, name(0))
    assert(fed.isEmpty && log.fedBack(7).files.isEmpty)
    feed(0)
    feed(1)
    assert(fed == Seq(name(0), name(1)).map(_.toString) && log.fedBack(7).files.nonEmpty)
    assert(log.complete(7).map(_.files.size).contains(2))
  }

  test("a task with both a file of rows and a file without is an error that names it") {
    feed(0)
    val rows = log.file(7, name(0))
    val files = rows.getFileSystem(new Configuration)
    val aside = new Path(rows.getParent, "aside")
    files.rename(rows, aside): Unit
    log.writeEmpty(7, name(0))
    files.rename(aside, rows): Unit
    log.writeEmpty(7, name(1))
    Seq[() => Any](() => log.fedBack(7), () => fed, () => log.complete(7)).foreach { read =>
      val error = intercept[TailraceStateException](read())
      assert(error.getCondition == "TAILRACE_STATE_FILE_CORRUPT")
      assert(error.getMessageParameters.get("file").endsWith("-0-of-2.fed"))
    }
  }
}
