package io.tailrace.replay

import scala.collection.mutable
import scala.util.Random

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

final class MarkTableSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private type Origin = (Long, Int)

  private def admit(table: MarkTable, origin: Origin, offset: Long): Boolean = {
    val entry = table.find(origin._1, origin._2)
    if (entry >= 0) table.admit(entry, offset)
    else {
      table.add(origin._1, origin._2, offset)
      true
    }
  }

  /** The rule as the issue has it, with all offsets remembered. */
  private final class Model(disorder: Int) {
    private val passed = mutable.Map.empty[Origin, mutable.TreeSet[Long]]

    def admit(origin: Origin, offset: Long): Boolean = {
      val seen = passed.getOrElseUpdate(origin, mutable.TreeSet.empty)
      val isNew = seen.isEmpty || offset > seen.last || (offset >= seen.last - disorder && !seen(offset))
      if (isNew) seen += offset
      isNew
    }

    def mark(origin: Origin): Long = passed(origin).last
  }

  private def records(span: Long): Gen[List[(Origin, Long)]] = Gen.listOf(for {
    pid <- Gen.oneOf(-1L, 0L, 1L, Long.MaxValue)
    partition <- Gen.choose(0, 2)
    offset <- Gen.choose(0L, span)
  } yield ((pid, partition), offset))

  Seq(0, 1, 3, 63, 64, 65, 200).foreach { disorder =>
    test(s"verdicts and marks are the model's, disorder $disorder") {
      forAll(Gen.oneOf(10L, 150L, 1000L).flatMap(records)) { input =>
        val table = new MarkTable(disorder)
        val model = new Model(disorder)
        input.foreach { case (origin, offset) =>
          assert(admit(table, origin, offset) == model.admit(origin, offset), (origin, offset))
        }
        input.map(_._1).distinct.foreach { origin =>
          assert(table.mark(table.find(origin._1, origin._2)) == model.mark(origin))
        }
      }
    }
  }

  test("the example of the class holds") {
    val table = new MarkTable(4)
    val verdicts = Seq(5L, 8L, 6L, 6L, 3L).map(admit(table, (1L, 0), _))
    assert(verdicts == Seq(true, true, true, false, false))
    assert(table.mark(0) == 8 && table.gaps(0) == 1)
  }

  test("gaps are offsets that were left out, less those that came late") {
    val table = new MarkTable(10)
    Seq(100L, 101L, 105L, 103L).foreach(admit(table, (1L, 0), _))
    assert(table.gaps(0) == 2)
    Seq(102L, 104L, 104L).foreach(admit(table, (1L, 0), _))
    assert(table.gaps(0) == 0)
  }

  test("a hundred thousand origins are found, with producer ids in a row and far apart") {
    val table = new MarkTable(0)
    val origins = for { i <- 0 until 25000; p <- 0 to 1; pid <- Seq(i.toLong, i.toLong << 40) } yield (pid, p)
    origins.distinct.foreach { case (pid, p) => table.add(pid, p, pid ^ p) }
    origins.foreach { case (pid, p) => assert(table.mark(table.find(pid, p)) == (pid ^ p)) }
    assert(table.find(-5, 0) == -1)
  }

  test("a copied table and a copied entry are independent of the original") {
    val a = new MarkTable(70)
    (0L to 100L by 2).foreach(admit(a, (7L, 3), _))
    val b = a.copy()
    assert(!admit(b, (7L, 3), 98L) && admit(b, (7L, 3), 99L) && admit(b, (7L, 3), 500L))
    assert(a.mark(0) == 100)
    assert(admit(a, (7L, 3), 99L))
    val c = new MarkTable(10)
    c.append(b, 0)
    assert(c.size == 1 && c.mark(0) == 500 && !admit(c, (7L, 3), 500L) && admit(c, (7L, 3), 499L))
    assert(c.findOrAppend(7, 3) == 0 && c.findOrAppend(7, 4) == 1 && c.find(7, 4) == 1)
  }

  test("origins are left out by the time at which they were last seen, and stay if they have none") {
    val table = new MarkTable(0)
    (0 until 100).foreach(pid => table.add(pid.toLong, 0, pid.toLong))
    (0 until 99).foreach(e => table.see(e, e * 10L))
    table.see(50, 3) // earlier than what is known
    table.see(50, 501) // the latest of its origin, and not of all
    table.see(50, 500)
    assert(table.lastSeenMs(50) == 501 && table.newestMs == 980)
    assert((0 until 100).filter(table.isBefore(_, 30)) == Seq(0, 1, 2))
    assert(table.since(30).size == 100, "three of a hundred aren't worth a new table")
    val rest = table.since(900)
    assert(rest.size == 10 && rest.find(89, 0) < 0 && rest.newestMs == 980)
    assert(rest.mark(rest.find(90, 0)) == 90 && rest.find(99, 0) >= 0)
    assert(table.size == 100 && table.copy().newestMs == 980)
  }

  test("a table and its copies, and copies of those, change apart from each other, whichever is written to") {
    val random = new Random(3)
    val disorder = 70
    def contents(t: MarkTable) = (0 until t.size).map { e =>
      (t.pid(e), t.partition(e), t.mark(e), t.gaps(e), t.lastSeenMs(e), t.window(e, 0), t.window(e, 1))
    }
    // Each table with the same one whose rows nobody shares.
    val tables = mutable.ArrayBuffer(new MarkTable(disorder) -> new MarkTable(disorder))
    (1 to 20000).foreach { _ =>
      val (table, alone) = tables(random.nextInt(tables.size))
      val (pid, partition, offset) =
        (random.nextInt(1500).toLong, random.nextInt(2), random.nextInt(200).toLong)
      Seq(table, alone).foreach { t =>
        val found = t.find(pid, partition)
        val entry = if (found >= 0) found else t.add(pid, partition, offset)
        if (found >= 0) t.admit(entry, offset)
        t.see(entry, offset)
      }
      if (random.nextInt(2000) == 0 && tables.size < 6) {
        val rebuilt = new MarkTable(disorder)
        (0 until alone.size).foreach(rebuilt.append(alone, _))
        tables += table.copy() -> rebuilt
      }
    }
    assert(tables.size == 6 && tables.head._1.size > 600)
    tables.foreach { case (table, alone) =>
      assert(contents(table) == contents(alone))
      assert((0 until table.size).forall(e => table.find(table.pid(e), table.partition(e)) == e))
    }
  }
}
