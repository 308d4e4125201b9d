package io.tailrace.sync

import org.scalatest.funsuite.AnyFunSuite

final class SyncRulesSuite extends AnyFunSuite {
  import SyncTimes.Unknown

  private def of(window: Long, syncDelay: Long = 0): SyncSettings =
    SyncMatrixSuite.settings.copy(window = window, syncDelay = syncDelay)

  test("left rows before the release time are released") {
    assert(SyncRules.releasedThrough(SyncTimes(100, Unknown)) == 99)
    assert(SyncRules.releasedThrough(SyncTimes(Unknown, 100)) == Long.MinValue)
  }

  test(
    "right rows expire when their time plus the window is before the release time and the left side's time"
  ) {
    assert(SyncRules.rightExpiry(SyncTimes(100, 200), of(30)) == 69)
    assert(SyncRules.rightExpiry(SyncTimes(200, 100), of(30)) == 69)
    assert(SyncRules.rightExpiry(SyncTimes(100, 100), of(0)) == 99)
  }

  test("left rows that jump back by the sync delay still find the right rows of their window") {
    assert(SyncRules.rightExpiry(SyncTimes(100, 200), of(30, syncDelay = 10)) == 59)
    // The rest of the delay is in the left low already.
    assert(SyncRules.rightExpiry(SyncTimes(100, 200), of(30, syncDelay = 50)) == 39)
  }

  test("a left row joins right rows from a window before it, as far as the right side is sure to be read") {
    assert(SyncRules.joinsFrom(100, of(30, syncDelay = 10)) == 70)
    assert(SyncRules.joinsThrough(100, of(30, syncDelay = 10)) == 110)
    assert(SyncRules.joinsThrough(100, of(30, syncDelay = 50)) == 130)
    assert(SyncRules.joinsFrom(Long.MinValue + 5, of(30)) == Long.MinValue)
    assert(SyncRules.joinsThrough(Long.MaxValue - 5, of(30, syncDelay = 50)) == Long.MaxValue)
  }

  test("a flush releases rows up to its time, and right rows a window and a delay before it") {
    val rules = of(30, syncDelay = 50)
    assert(SyncRules.flushedThrough(100, rules) == SyncTimes(101, 81))
    assert(SyncRules.flushedThrough(100, of(50, syncDelay = 30)) == SyncTimes(101, 101))
    assert(SyncRules.flushedThrough(Long.MaxValue, rules).release == Long.MaxValue)
    assert(SyncRules.flushesRight(100, rules) == 180)
    assert(SyncRules.flushesRight(Long.MaxValue - 79, rules) == Long.MaxValue)
  }

  test("no row expires while one of the times is unknown, and no time overflows") {
    assert(SyncRules.rightExpiry(SyncTimes(Unknown, 100), of(30)) == Long.MinValue)
    assert(SyncRules.rightExpiry(SyncTimes(100, Unknown), of(30)) == Long.MinValue)
    assert(SyncRules.rightExpiry(SyncTimes(Long.MinValue + 5, Long.MaxValue), of(30)) == Long.MinValue)
    assert(SyncRules.rightExpiry(SyncTimes(100, 100), of(Long.MaxValue)) < -Long.MaxValue / 2)
  }
}
