package io.tailrace.recursion

import org.scalatest.funsuite.AnyFunSuite

final class HopCountsSuite extends AnyFunSuite {
  private val shallow = HopCounts(Vector(Hop(5, 10)), fedBack = 5, stopped = 1, cycles = 2)
  private val deep = HopCounts(Vector(Hop(1, 30), Hop(0, 5), Hop(2, 7), Hop(0, 1)), fedBack = 3)

  test("two tasks: rows are added hop by hop, of the times the longer one counts, in either order") {
    val both = HopCounts(
      Vector(Hop(6, 30), Hop(0, 5), Hop(2, 7), Hop(0, 1)),
      fedBack = 8,
      stopped = 1,
      cycles = 2
    )
    assert(shallow + deep == both)
    assert(deep + shallow == both)
    assert(both + HopCounts() == both)
  }

  test("of two runs over a partition the one with more rows") {
    assert(shallow.max(deep) == shallow)
    assert(deep.max(shallow) == shallow)
    assert(HopCounts().max(deep) == deep)
  }

  test("rows and depth: hops that gave nothing don't count") {
    assert((deep.rows, deep.deepest) == (3, 3))
    assert((HopCounts().rows, HopCounts().deepest) == (0, 0))
  }
}
