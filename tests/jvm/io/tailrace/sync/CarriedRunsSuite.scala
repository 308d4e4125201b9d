package io.tailrace.sync

import org.scalatest.funsuite.AnyFunSuite

final class CarriedRunsSuite extends AnyFunSuite {
  import CarriedRuns._

  test("runs of which less than a quarter of the rows is alive are carried") {
    assert(
      choose(Seq(Share("a", 100, 24, 0), Share("b", 100, 25, 0), Share("c", 4, 1, 0)), 64) == Set("a")
    )
  }

  test("runs with marks only are carried") {
    assert(choose(Seq(Share("a", 0, 0, 9), Share("b", 1, 1, 0)), 64) == Set("a"))
  }

  test(
    "beyond the limit the smallest are carried, so that with the batch's own run there are no more than that"
  ) {
    val shares = (1 to 6).map(i => Share(s"r$i", 10L * i, 10L * i, 0))
    assert(choose(shares, 7).isEmpty)
    assert(choose(shares, 6) == Set("r1"))
    assert(choose(shares.reverse, 4) == Set("r1", "r2", "r3"))
    assert(choose(shares.updated(0, Share("r1", 10, 10, 100)), 6) == Set("r2"))
    assert(choose(shares :+ Share("dead", 100, 1, 0), 6) == Set("dead", "r1"))
  }

  test("without runs, none is carried") {
    assert(choose(Nil, 64).isEmpty)
  }
}
