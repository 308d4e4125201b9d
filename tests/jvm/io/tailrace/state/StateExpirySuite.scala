package io.tailrace.state

import org.apache.spark.sql.execution.streaming.state.StateStore

/** Rows and sections that expire. */
final class StateExpirySuite extends StateStoreSuite {
  import StoreKind.{LeftTimeSorted, RightKeySorted}

  test("a section is dropped when its newest row has expired, not before, and its rows are counted") {
    val store = storeWith(at(1, 9), at(3, 5, 12))
    assert(rowCount(store) == 5)
    assert(store.dropThrough(RightKeySorted, 4) == 0)
    assert(store.dropThrough(RightKeySorted, 5) == 2)
    assert(rowsOf(store, RightKeySorted) == at(12))
    assert(rowsOf(store, LeftTimeSorted) == at(1, 9))
    assert(rowCount(store) == 3)
    store.commit()
    val next = reopen(1)
    assert(rowsOf(next, RightKeySorted) == at(12))
    next.abort()
  }

  test(
    "expired rows count no more, also after a reload, and aren't counted again when their section is dropped"
  ) {
    val store = storeWith(at(1, 2, 8))
    store.markExpired(LeftTimeSorted, 2, _ => 2)
    assert(store.expiredThrough == 2)
    assert(rowCount(store) == 1)
    store.commit()
    val next = reopen(1)
    assert(next.expiredThrough == 2)
    assert(rowCount(next) == 1)
    next.markExpired(LeftTimeSorted, 8, _ => 1)
    assert(rowCount(next) == 0)
    assert(next.dropThrough(LeftTimeSorted, 8) == 0)
    next.commit()
    assert(reopenedExpiry(2) == 8)
  }

  private def reopenedExpiry(version: Long): Long = {
    val store = reopen(version)
    try store.expiredThrough
    finally store.abort()
  }

  test("expiry is of one store only, and never goes back") {
    val store = storeWith(at(5), at(5))
    store.markExpired(LeftTimeSorted, 5, _ => 1)
    store.markExpired(LeftTimeSorted, 3, _ => 0)
    assert(store.expiredThrough == 5)
    assert(rowCount(store) == 1)
    assert(store.dropThrough(RightKeySorted, 5) == 1)
    store.abort()
  }

  test("when all rows have expired, the state has no section, no run and no byte") {
    storeWith(at(1, 11), at(2, 12)).commit()
    val store = reopen(1)
    // A run that dies in its own batch is in the checkpoint before that is known; no manifest names it.
    store.addRun(10, RightKeySorted -> bufferOf(at(20)))
    store.markExpired(LeftTimeSorted, 30, live => live.section.rows)
    store.dropThrough(LeftTimeSorted, 30)
    store.dropThrough(RightKeySorted, 30)
    store.commit()
    val empty = reopen(2)
    assert(StoreKind.all.flatMap(empty.sectionsOf).isEmpty)
    assert(!empty.iterator(StateStore.DEFAULT_COL_FAMILY_NAME).hasNext)
    assert(rowCount(empty) == 0)
    assert(empty.metrics.memoryUsedBytes == 0)
    empty.commit()
    reopen(3).commit()
    reopen(4).commit()
    val provider = newProvider(storeConf(retain(1)))
    provider.maintain()
    assert(plainNames == Set("3.manifest", "4.manifest", "5.manifest"))
  }

  test("a store's bytes are those of its live sections") {
    val store = storeWith(at(1), at(2, 30))
    val all = store.bytesOf(RightKeySorted)
    assert(all == at(2, 30).map(r => r.layout.length).sum)
    store.dropThrough(RightKeySorted, 2)
    assert(store.bytesOf(RightKeySorted) < all)
    assert(store.bytesOf(StoreKind.LeftKeySorted) == 0)
    store.commit()
    assert(store.metrics.memoryUsedBytes > 0)
  }
}
