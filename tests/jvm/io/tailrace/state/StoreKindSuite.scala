package io.tailrace.state

import org.scalatest.funsuite.AnyFunSuite

final class StoreKindSuite extends AnyFunSuite {

  test("ids and names are part of the format: they never change") {
    assert(
      StoreKind.all.map(k => (k.id.toInt, k.name, k.timeSorted)) == Seq(
        (1, "left-time-sorted", true),
        (2, "left-key-sorted", false),
        (3, "right-key-sorted", false),
        (4, "joined-indicator", true),
        (5, "held-left", true),
        (6, "held-right", false),
        (7, "joined-right", true)
      )
    )
  }

  test("a kind is found by its name") {
    StoreKind.all.foreach(k => assert(StoreKind.named(k.name).contains(k)))
    assert(StoreKind.named("joined").isEmpty)
  }
}
