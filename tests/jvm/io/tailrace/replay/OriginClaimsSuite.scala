package io.tailrace.replay

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.types.{DataType, IntegerType, LongType}
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException

/** Tasks of one batch and the driver: which of them judges an origin, whichever comes first. */
final class OriginClaimsSuite extends AnyFunSuite {
  private val toUnsafe = UnsafeProjection.create(Array[DataType](LongType, IntegerType, LongType))

  /** Marks that begin a batch: an origin is read from the partition `t/<home>`. */
  private def marks(entries: (Long, Long, String)*): MarkTable = {
    val table = new MarkTable(0)
    entries.foreach { case (pid, mark, home) =>
      table.setHome(table.add(pid, 0, mark), table.homes.of(home))
    }
    table
  }

  private final class Batch(base: MarkTable) {
    private val claims = new OriginClaims("replays", new ReplayNotices)

    /** Runs a task of one partition. @return how many records have passed */
    def task(home: String, records: (Long, Long)*): Long = {
      val reader = MetadataReader(Array(0, 1, 2))
      val task = new ReplayTask(base, reader, new RecordClock(-1, 0, 0), Long.MinValue, claims.answer)
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
  }

  test("a move is found before the origin's home is claimed, at a home of other origins too") {
    val batch = new Batch(before)
    assert(batch.task("t/1", 3L -> 8L) == 1)
    assert(batch.task("t/1", 2L -> 8L) == 1)
    assert(batch.task("t/0", 1L -> 42L) == 1)
    batch.refuses("t/0", 2L -> 9L)
  }

  test("a task that runs twice isn't refused, whether its origins are at home, new or moved") {
    val batch = new Batch(before)
    (1 to 2).foreach { _ =>
      assert(batch.task("t/0", 2L -> 8L, 5L -> 1L) == 2)
      assert(batch.task("t/1", moved: _*) == 3)
    }
    batch.refuses("t/1", 5L -> 2L)
  }
}
