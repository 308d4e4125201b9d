package io.tailrace.replay

import java.io.IOException
import java.nio.BufferUnderflowException
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.types.{DataType, IntegerType, LongType}
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.Slow

/** Tasks of one batch and the driver: the marks that they move, and which of them judges an origin. */
final class BatchMarksSuite extends AnyFunSuite {
  private val toUnsafe = UnsafeProjection.create(Array[DataType](LongType, IntegerType, LongType))

  /** Marks that begin a batch: an origin is read from the partition `t/<home>`. */
  private def marks(entries: (Long, Long, String)*): MarkTable = {
    val table = new MarkTable(0)
    entries.foreach { case (pid, mark, home) =>
      table.setHome(table.add(pid, 0, mark), table.homes.of(home))
    }
    table
  }

  private final class Batch(base: MarkTable, tasks: Int = 2) {
    var after = Option.empty[Map[Long, Long]]
    var sent = 0
    var failures = 0
    private val settings = ReplaySettings("replays")
    val driver = new BatchMarks(settings, new ReplayNotices, tasks, base, Some(end(_, _)))
    private val attempts = new AtomicLong

    private def end(marks: MarkTable, tables: Seq[Array[Byte]]): Unit = {
      if (failures > 0) {
        failures -= 1
        throw new IOException("not written")
      }
      assert(after.isEmpty, "a batch is done once")
      after = Some((0 until marks.size).map(e => marks.pid(e) -> marks.mark(e)).toMap)
      sent = tables.size
    }

    /** Runs a task of one partition. @return how many records have passed */
    def task(home: String, records: (Long, Long)*): Long = attempt(driver.answer, home, records: _*)

    /** One that dies before it has told all. */
    def dying(home: String, records: (Long, Long)*): Unit = {
      def ask(message: Array[Byte]) = {
        // The flag of the last message.
        driver.answer(message.updated(12, 0.toByte))
        throw new IOException("dead")
      }
      intercept[IOException](attempt(ask, home, records: _*)): Unit
    }

    def attempt(ask: Array[Byte] => Array[Byte], home: String, records: (Long, Long)*): Long = {
      val reader = MetadataReader(Array(0, 1, 2))
      val number = home.last - '0'
      val report = new BatchMarks.Report(number, attempts.incrementAndGet(), 0, ask)
      val task = new ReplayTask(base, reader, new RecordClock(-1, 0, 0), Long.MinValue, report)
      task.enter(home)
      records.foreach { case (pid, offset) => task.isReplay(toUnsafe(InternalRow(pid, 0, offset))) }
      task.end()
      task.counts.passed
    }

    def refuses(home: String, records: (Long, Long)*): Unit = {
      val error = intercept[TailraceStateException](task(home, records: _*))
      assert(error.getCondition == "TAILRACE_REPLAY_ORIGIN_SPLIT")
      assert(error.getMessageParameters.get("places").split(" and ").toSet == Set("t/0", "t/1"))
      ()
    }
  }

  private val before = marks((1L, 41L, "t/0"), (2L, 7L, "t/0"), (3L, 7L, "t/1"))
  private val atHome = Seq(2L -> 8L, 1L -> 42L, 1L -> 43L, 1L -> 44L)
  private val moved = Seq(3L -> 8L, 1L -> 44L, 1L -> 45L)

  test(
    "an origin that is read at its home and from another partition in one batch is refused, in either order"
  ) {
    val homeFirst = new Batch(before)
    assert(homeFirst.task("t/0", atHome: _*) == 4)
    (1 to 2).foreach(_ => homeFirst.refuses("t/1", moved: _*))
    val homeLast = new Batch(before)
    assert(homeLast.task("t/1", moved: _*) == 3)
    (1 to 2).foreach(_ => homeLast.refuses("t/0", atHome: _*))
    assert(homeFirst.after.isEmpty && homeLast.after.isEmpty, "a batch that fails leaves no marks")
  }

  test("an origin that no mark has at its partition is refused in a second task, at home of others too") {
    val batch = new Batch(before, tasks = 3)
    assert(batch.task("t/1", 3L -> 8L) == 1)
    assert(batch.task("t/0", 1L -> 42L, 9L -> 1L) == 2)
    val error = intercept[TailraceStateException](batch.task("t/2", 4L -> 1L, 9L -> 2L))
    assert(error.getMessageParameters.get("places") == "t/0 and t/2")
  }

  test("a task that runs twice isn't refused, whether its origins are at home, new or moved") {
    val batch = new Batch(before)
    assert(batch.task("t/0", 2L -> 8L, 5L -> 1L) == 2 && batch.after.isEmpty)
    (1 to 2).foreach { _ =>
      assert(batch.task("t/1", moved: _*) == 3)
      assert(batch.task("t/0", 2L -> 8L, 5L -> 1L) == 2)
    }
    assert(batch.after.contains(Map(1L -> 45L, 2L -> 8L, 3L -> 8L, 5L -> 1L)) && batch.sent == 2)
    assert((0 until before.size).map(before.mark) == Seq(41, 7, 7), "they aren't changed")
  }

  test("a batch is done when all of its tasks have told, those without records too, and only then") {
    val batch = new Batch(before, tasks = 3)
    batch.task("t/0", 1L -> 42L)
    batch.task("t/0", 1L -> 42L)
    batch.task("t/2")
    assert(batch.after.isEmpty)
    batch.task("t/1")
    assert(batch.after.contains(Map(1L -> 42L, 2L -> 7L, 3L -> 7L)) && batch.sent == 1)
  }

  test("a task that dies while it tells its marks leaves none of them") {
    val batch = new Batch(before)
    batch.dying("t/0", 1L -> 42L, 6L -> 1L)
    batch.task("t/0", 1L -> 42L)
    batch.dying("t/1", 6L -> 2L)
    batch.task("t/1")
    assert(batch.after.contains(Map(1L -> 42L, 2L -> 7L, 3L -> 7L)))
  }

  test("marks that can't be written fail the last task, which writes them when it runs again") {
    val batch = new Batch(before)
    batch.failures = 2
    batch.task("t/0", 1L -> 42L)
    (1 to 2).foreach(_ => intercept[IOException](batch.task("t/1", 3L -> 8L)))
    assert(batch.after.isEmpty)
    batch.task("t/1", 3L -> 8L)
    assert(batch.after.contains(Map(1L -> 42L, 2L -> 7L, 3L -> 8L)))
  }

  test("a task whose marks can't be merged fails each time, and the batch is never done") {
    val batch = new Batch(before)
    batch.task("t/0", 1L -> 42L)
    val damaged = (message: Array[Byte]) => batch.driver.answer(message.dropRight(1))
    intercept[BufferUnderflowException](batch.attempt(damaged, "t/1", 3L -> 8L))
    (1 to 2).foreach(_ => intercept[IllegalStateException](batch.task("t/1", 3L -> 8L)))
    assert(batch.after.isEmpty)
  }

  test("marks that aren't kept are only judged") {
    val driver =
      new BatchMarks(ReplaySettings("replays"), new ReplayNotices, 2, new MarkTable(0), None)
    val task = new MarkTable(100)
    task.setHome(task.add(1, 0, 5), task.homes.of("t/0"))
    var longest = 0
    def report(index: Int) = new BatchMarks.Report(
      index,
      index.toLong,
      0,
      { message =>
        longest = Math.max(longest, message.length)
        driver.answer(message)
      }
    )
    report(0).send(task, 0)
    intercept[TailraceStateException](report(1).send(task, 0))
    assert(longest < 100, "windows aren't sent")
  }

  test("a task with more origins than a message holds tells them in several", Slow) {
    val batch = new Batch(before)
    val many = (1000L until 700000L).map(pid => pid -> 1L)
    assert(batch.task("t/0", many: _*) == many.size)
    batch.task("t/1", 3L -> 8L)
    assert(batch.after.get.size == many.size + 3 && batch.sent == 4)
  }
}
