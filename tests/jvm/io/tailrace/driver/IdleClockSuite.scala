package io.tailrace.driver

import org.scalatest.funsuite.AnyFunSuite

final class IdleClockSuite extends AnyFunSuite {
  private val second = 1000L

  /** Two parts, of which `a` is the one that goes on. */
  private final class Two(limitMs: Long) {
    private var clock = new IdleClock(limitMs)
    private var b = 0L

    def batch(atMs: Long, a: Boolean = true, heard: Heard = Heard.No): Unit = {
      val passed = clock.advance(atMs, a || heard == Heard.Yes)
      b = clock.mark(b, passed, heard)
    }
    def idleMs: Long = clock.since(b)
    def isTooLong: Boolean = clock.isTooLong(b)

    def restart(): Unit = clock = new IdleClock(limitMs, clock.nowMs)
  }

  test("the example in the scaladoc is right") {
    val two = new Two(80 * second)
    val hours = 8 * 3600 * second
    val seen = Seq(
      (0L, true, Heard.Yes),
      (5 * second, true, Heard.No),
      (12 * second, false, Heard.No),
      (hours, true, Heard.No),
      (hours + 4 * second, true, Heard.Yes)
    ).map { case (at, a, heard) =>
      two.batch(at, a, heard)
      two.idleMs / second
    }
    assert(seen == Seq(0, 5, 5, 15, 0))
  }

  test("while other parts give rows, idle time is the time that has passed") {
    val two = new Two(60 * second)
    two.batch(0, heard = Heard.Yes)
    (1 to 59).foreach { i =>
      two.batch(i * second)
      assert(two.idleMs == i * second && !two.isTooLong)
    }
    two.batch(60 * second)
    assert(two.isTooLong)
    two.batch(61 * second, heard = Heard.Yes)
    assert(two.idleMs == 0 && !two.isTooLong)
  }

  test("a night without any rows is no idle time, also of a part that begins a little later in the morning") {
    val two = new Two(60 * second)
    two.batch(0, heard = Heard.Yes)
    (1 to 20).foreach(i => two.batch(i * second))
    val morning = 30000 * second
    // Batches without data, in between.
    (1 to 100).foreach(i => two.batch(i * 300 * second, a = false))
    two.batch(morning)
    assert(two.idleMs <= 28 * second && !two.isTooLong)
    two.batch(morning + 1, heard = Heard.Yes)
    assert(two.idleMs == 0)
  }

  test("a dead part is found, however seldom the other parts give rows") {
    val two = new Two(60 * second)
    two.batch(0, heard = Heard.Yes)
    (1 to 7).foreach { i =>
      two.batch(i * 3600 * second)
      assert(!two.isTooLong)
    }
    two.batch(8 * 3600 * second)
    assert(two.isTooLong)
  }

  test(
    "time while the query is down isn't idle time, and a new run goes on with the marks of the one before"
  ) {
    val two = new Two(60 * second)
    two.batch(0, heard = Heard.Yes)
    (1 to 30).foreach(i => two.batch(i * second))
    two.restart()
    // Another process: its clock may be anything.
    two.batch(-5000 * second)
    assert(two.idleMs == 30 * second)
    (1 to 30).foreach(i => two.batch((-5000 + i) * second))
    assert(two.isTooLong)
  }

  test("batches without rows between those of others hide no idle time") {
    val two = new Two(60 * second)
    two.batch(0, heard = Heard.Yes)
    // As Spark makes them when the watermark has moved.
    (1 to 4).foreach { i =>
      two.batch((i * 5 - 1) * second, a = false)
      two.batch(i * 5 * second)
    }
    assert(two.idleMs == 20 * second)
  }

  test("a clock that goes back adds no idle time") {
    val two = new Two(60 * second)
    two.batch(1000 * second, heard = Heard.Yes)
    two.batch(10 * second)
    assert(two.idleMs == 0)
    two.batch(11 * second)
    assert(two.idleMs == second)
  }

  test("a part with unread rows isn't idle, and time in which it is unknown doesn't count") {
    val two = new Two(60 * second)
    two.batch(0, heard = Heard.Yes)
    (1 to 5).foreach(i => two.batch(i * second))
    (6 to 500).foreach(i => two.batch(i * second, heard = Heard.Unknown))
    assert(two.idleMs == 5 * second)
    two.batch(501 * second)
    assert(two.idleMs == 6 * second)
    two.batch(502 * second, heard = Heard.Yes)
    assert(two.idleMs == 0)
  }
}
