package io.tailrace.driver

import org.scalatest.funsuite.AnyFunSuite

/** How long a query has had no input. */
final class IdleQuerySuite extends AnyFunSuite {
  private val second = 1000L

  /** Asked each second. @return the first second at which it has been idle for too long */
  private def idleAt(query: IdleQuery, from: Int): Int =
    Iterator.from(from).find(s => query.asked(s * second)).get

  test("idle time is counted from the first question of a run, and from each batch with input") {
    val query = new IdleQuery(100 * second)
    query.begins(0, hasInput = true)
    assert(idleAt(query, from = 1) == 101)
    query.begins(1, hasInput = false)
    assert(query.asked(102 * second), "a batch without input ends no idle time")
    query.begins(2, hasInput = true)
    assert(idleAt(query, from = 103) == 202)
  }

  test("a batch that is planned twice begins once") {
    val query = new IdleQuery(10 * second)
    query.begins(3, hasInput = true)
    assert(idleAt(query, from = 0) == 10)
    query.begins(3, hasInput = true)
    assert(query.asked(10 * second))
  }

  test("a process that stood still for a day was not idle for a day") {
    val query = new IdleQuery(80 * second)
    query.begins(0, hasInput = true)
    query.asked(0L): Unit
    assert(!query.asked(86400 * second))
    val steps = (1 to 7).map(i => query.asked((86400 + 3600L * i) * second))
    assert(steps == Seq.fill(6)(false) :+ true)
  }

  test("a clock that jumps back and forward is no idle time but for the time between the jumps") {
    val query = new IdleQuery(80 * second)
    query.begins(0, hasInput = true)
    query.asked(1000 * second): Unit
    // An hour back, then ahead, again and again: a jump ahead counts as one question does, and one back nothing.
    val jumps = (1 to 7).flatMap(_ => Seq(-2600, 5000)).map(at => query.asked(at * second))
    assert(!jumps.exists(identity), "seven questions of ten seconds")
    assert(idleAt(query, from = 5001) == 5010)
  }
}
