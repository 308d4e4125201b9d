package io.tailrace.state

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.{StoreFixture, TestRow}

/** Stores of one partition, each over a fresh provider. */
abstract class StateStoreSuite extends AnyFunSuite with StoreFixture {
  import StoreKind.{LeftTimeSorted, RightKeySorted}

  protected def at(times: Long*): Seq[TestRow] = times.map(t => TestRow.of(s"key $t", t, t, s"value $t"))

  /** A store of version 0 with these rows as its first run. */
  protected def storeWith(
      left: Seq[TestRow],
      right: Seq[TestRow] = Nil,
      bucketWidth: Long = 10
  ): TailraceStateStore = {
    val store = open(newProvider(), 0)
    store.addRun(bucketWidth, LeftTimeSorted -> bufferOf(left), RightKeySorted -> bufferOf(right))
    store
  }

  protected def reopen(version: Long): TailraceStateStore = open(newProvider(), version)

  protected def rowCount(store: TailraceStateStore): Long = store.metrics.numKeys
}
