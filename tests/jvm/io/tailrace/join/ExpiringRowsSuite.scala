package io.tailrace.join

import org.apache.spark.sql.tailrace.TaskMemory
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.state.{MemoryShare, RowMemory, StoreKind, TailraceStateStore}
import io.tailrace.testkit.{StoreFixture, TestRow}

final class ExpiringRowsSuite extends AnyFunSuite with StoreFixture with ScalaCheckPropertyChecks {
  import StoreKind.{LeftTimeSorted, RightKeySorted}

  private def at(time: Long, seq: Long): TestRow =
    TestRow(TestRow.key(s"k$seq"), time, seq, Vector.fill(400)(seq.toByte))

  /** A store with a run for each batch. */
  private def storeOf(batches: Seq[Seq[TestRow]], bucketWidth: Long = 10): TailraceStateStore = {
    val store = open(newProvider(), 0)
    batches.foreach { rows =>
      val buffer = bufferOf(rows)
      store.addRun(bucketWidth, LeftTimeSorted -> buffer, RightKeySorted -> buffer)
      buffer.close()
    }
    store
  }

  private def fill(rows: ExpiringRows, bytes: Long): Seq[TestRow] = {
    val buffer = newBuffer()
    rows.fill(buffer, new MemoryShare(new RowMemory(TaskMemory.create(512L << 20)), bytes))
    try (0 until buffer.size).map(TestRow.read(buffer, _))
    finally buffer.close()
  }

  test("rows that expire come oldest first, a chunk at a time, and are counted for their sections") {
    val times = Gen.choose(0L, 60L)
    val batches = Gen.choose(1, 5).flatMap(Gen.listOfN(_, Gen.listOf(times)))
    forAll(
      batches,
      Gen.choose(-2L, 61L),
      Gen.choose(-2L, 61L),
      Gen.oneOf(1L, 3000L, 1L << 30),
      minSuccessful(40)
    ) { (timesOfBatches, a, b, bytes) =>
      emptyDirectory()
      val (from, through) = (Math.min(a, b), Math.max(a, b))
      val number = Iterator.from(0)
      val store = storeOf(timesOfBatches.map(_.map(t => at(t, number.next().toLong))))
      val sections = store.sectionsOf(LeftTimeSorted)
      val expiring = new ExpiringRows(store, LeftTimeSorted, from, through)
      val chunks = Iterator.continually(expiring).takeWhile(!_.isEmpty).map(fill(_, bytes)).toSeq
      val found = chunks.flatten
      val all = sections.map(s => s -> TestRow.all(s).filter(r => r.time > from && r.time <= through))
      assert(found.sortBy(_.seq) == all.flatMap(_._2).sortBy(_.seq))
      assert(found.map(_.time) == found.map(_.time).sorted)
      if (bytes == 1) assert(chunks.forall(_.size == 1))
      val taken = expiring.taken
      all.foreach { case (s, rows) => assert(taken.getOrElse(s, 0L) == rows.size) }
      assert(taken.keySet.subsetOf(sections.toSet))
      expiring.close()
      // Waits for the copies of its runs: the next example needs an empty directory.
      store.commit()
    }
  }

  test("rows that were taken are counted, and no others") {
    val store = storeOf(Seq(Seq(at(1, 1), at(3, 2), at(5, 3)), Seq(at(2, 4), at(4, 5))))
    val sections = store.sectionsOf(LeftTimeSorted)
    assert(sections.size == 2)
    val (first, second) = (sections(0), sections(1))
    val expiring = new ExpiringRows(store, LeftTimeSorted, Long.MinValue, 100)
    assert(expiring.taken == Map(first -> 0L, second -> 0L))
    assert(fill(expiring, 1).map(_.time) == Seq(1))
    assert(expiring.taken == Map(first -> 1L, second -> 0L))
    assert(fill(expiring, 1200).map(_.time) == Seq(2, 3, 4))
    assert(expiring.taken == Map(first -> 2L, second -> 2L))
    assert(fill(expiring, 1 << 20).map(_.time) == Seq(5))
    assert(expiring.taken == Map(first -> 3L, second -> 2L))
    assert(expiring.isEmpty && fill(expiring, 1 << 20).isEmpty)
    expiring.close()
    store.abort()
  }

  test("rows that have expired don't come again, and sections without rows to come aren't read") {
    val store = storeOf(Seq(Seq(at(1, 1), at(2, 2), at(12, 3), at(30, 4))))
    val sections = store.sectionsOf(LeftTimeSorted)
    val expiring = new ExpiringRows(store, LeftTimeSorted, 1, 15)
    assert(fill(expiring, 1 << 20).map(_.time) == Seq(2, 12))
    assert(expiring.taken == Map(sections(0) -> 1L, sections(1) -> 1L))
    expiring.close()
    store.abort()
  }
}
