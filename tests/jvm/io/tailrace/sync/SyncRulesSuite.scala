package io.tailrace.sync

import org.scalatest.funsuite.AnyFunSuite

final class SyncRulesSuite extends AnyFunSuite {
  import SyncTimes.Unknown

  test("left rows before the release time are released") {
    assert(SyncRules.releasedThrough(SyncTimes(100, Unknown)) == 99)
    assert(SyncRules.releasedThrough(SyncTimes(Unknown, 100)) == Long.MinValue)
  }

  test("right rows whose time and window are before both the release time and the left side's low expire") {
    assert(SyncRules.rightExpiry(SyncTimes(100, 200), 30) == 69)
    assert(SyncRules.rightExpiry(SyncTimes(200, 100), 30) == 69)
    assert(SyncRules.rightExpiry(SyncTimes(100, 100), 0) == 99)
  }

  test("nothing expires while one of them is unknown, nor does time run over") {
    assert(SyncRules.rightExpiry(SyncTimes(Unknown, 100), 30) == Long.MinValue)
    assert(SyncRules.rightExpiry(SyncTimes(100, Unknown), 30) == Long.MinValue)
    assert(SyncRules.rightExpiry(SyncTimes(Long.MinValue + 5, Long.MaxValue), 30) == Long.MinValue)
    assert(SyncRules.rightExpiry(SyncTimes(100, 100), Long.MaxValue) < -Long.MaxValue / 2)
  }
}
