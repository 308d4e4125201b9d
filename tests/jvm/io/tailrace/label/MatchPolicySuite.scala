package io.tailrace.label

import org.scalatest.funsuite.AnyFunSuite

class MatchPolicySuite extends AnyFunSuite {
  private def choose(policy: MatchPolicy, leftTime: Long, times: Long*): Int =
    policy.choose(times.size, leftTime, i => times(i))

  test("all chooses all matches") {
    assert(choose(MatchPolicy.All, 10, 5, 10, 15) == -1)
  }

  test("first and last choose the ends of the order, also among equal times") {
    assert(choose(MatchPolicy.First, 10, 5, 5, 15, 15) == 0)
    assert(choose(MatchPolicy.Last, 10, 5, 5, 15, 15) == 3)
    assert(choose(MatchPolicy.First, 10, 5) == 0)
    assert(choose(MatchPolicy.Last, 10, 5) == 0)
  }

  test("nearest chooses the least distance on either side") {
    assert(choose(MatchPolicy.Nearest, 10, 1, 9, 12) == 1)
    assert(choose(MatchPolicy.Nearest, 10, 1, 8, 11) == 2)
    assert(choose(MatchPolicy.Nearest, 10, 1, 10, 11) == 1)
  }

  test("nearest chooses the earlier one of two that are equally near, and the first one of equal times") {
    assert(choose(MatchPolicy.Nearest, 10, 8, 12) == 0)
    assert(choose(MatchPolicy.Nearest, 10, 7, 8, 8, 12, 12) == 1)
  }

  test("each policy has its name") {
    assert(MatchPolicy.values.map(_.name) == Seq("all", "first", "last", "nearest"))
  }
}
