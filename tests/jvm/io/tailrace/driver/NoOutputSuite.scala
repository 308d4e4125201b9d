package io.tailrace.driver

import org.scalatest.funsuite.AnyFunSuite

final class NoOutputSuite extends AnyFunSuite {
  private val minute = 60L * 1000

  /** Batches of one after the other: when, and whether rows came and went. @return for how long, if it is due */
  private def due(batches: (Long, Boolean, Boolean)*): Seq[Option[Long]] = {
    val noted = new NoOutput(10 * minute)
    batches.zipWithIndex.map { case ((at, in, out), batch) =>
      val due = noted.after(batch.toLong, at * minute, in, out)
      if (due.nonEmpty) noted.told()
      due.map(_ / minute)
    }
  }

  test("it is due once, and again after a row has come out: the example in the scaladoc") {
    val times = Seq(
      (0L, true, false),
      (6L, true, false),
      (11L, true, false),
      (12L, true, false),
      (30L, true, true),
      (41L, true, false),
      (51L, true, false)
    )
    assert(due(times: _*) == Seq(None, None, Some(11), None, None, None, Some(10)))
  }

  test("without input nothing is due, however long it takes") {
    assert(due((0, false, false), (30, false, false), (31, true, false)).flatten.isEmpty)
    assert(due((0, true, false), (30, false, false)).flatten.isEmpty)
    assert(due((0, true, false), (30, false, false), (31, true, false)).last.contains(31))
  }

  test("as long as nobody was told it stays due, and a batch counts once") {
    val noted = new NoOutput(10)
    assert(noted.after(0, 0, hasInput = true, hasOutput = false).isEmpty)
    assert(noted.after(1, 10, hasInput = true, hasOutput = false).contains(10))
    assert(noted.after(1, 30, hasInput = true, hasOutput = false).isEmpty)
    assert(noted.after(2, 31, hasInput = true, hasOutput = false).contains(31))
  }
}
