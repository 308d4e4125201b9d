package io.tailrace.state

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.{RunFixture, TestRow}

final class MergedSectionsSuite extends AnyFunSuite with RunFixture {

  private def section(times: Long*): LiveSection =
    newSection(StoreKind.LeftTimeSorted, times.map(t => TestRow(TestRow.key(s"k$t"), t, t, Vector(t.toByte))))

  private def times(rows: MergedSections): Seq[Long] =
    Iterator
      .continually(rows)
      .takeWhile(!_.isEmpty)
      .map { r =>
        val time = r.head.time
        r.drop()
        time
      }
      .toSeq

  test("rows come in order over all sections, between the two times, and are counted for their section") {
    val sections = Seq(section(1, 2, 7, 9), section(3, 4, 8), section(20), section(5, 6))
    val rows = new MergedSections(sections, RunCursor.inOrder(RowOrder.Time), from = 1, through = 8)
    assert(times(rows) == (2L to 8L))
    assert(sections.map(rows.dropped) == Seq(2, 3, 0, 2))
    rows.close()
  }

  test("without sections there are no rows") {
    val rows = new MergedSections(Nil, RunCursor.inOrder(RowOrder.Time), from = Long.MinValue)
    assert(rows.isEmpty && rows.dropped.isEmpty)
    rows.close()
  }
}
