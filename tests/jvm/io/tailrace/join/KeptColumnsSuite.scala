package io.tailrace.join

import org.scalatest.funsuite.AnyFunSuite

final class KeptColumnsSuite extends AnyFunSuite {
  private def after(starts: (Set[String], Long)*): KeptColumns =
    starts.tail.foldLeft(KeptColumns(starts.head._1, starts.head._2)) { case (kept, (needed, batch)) =>
      kept.next(needed, batch)
    }

  test("rows of before lack what is needed more") {
    assert(after(Set("a") -> 0L, Set("a", "b") -> 7L) == KeptColumns(Set("a", "b"), 7))
    assert(after(Set("a", "b") -> 0L, Set("b") -> 7L) == KeptColumns(Set("b"), 0))
    assert(after(Set("a", "b") -> 0L, Set("b") -> 7L, Set("a", "b") -> 9L) == KeptColumns(Set("a", "b"), 9))
    assert(after(Set("a") -> 3L, Set("a") -> 7L) == KeptColumns(Set("a"), 3))
  }

  test("any name is read as it was written") {
    for (names <- Seq(Set.empty[String], Set("a"), Set("x from batch 3", "a`b", "c, `d`", "``")))
      assert(
        KeptColumns.of(Map(KeptColumns.Setting -> KeptColumns(names, 12).text), Set("z")) ==
          KeptColumns(names, 12)
      )
  }

  test("a checkpoint without it has what is needed") {
    assert(KeptColumns.of(Map.empty, Set("a")).next(Set("a"), 4) == KeptColumns(Set("a"), 0))
    assert(!KeptColumns.beginsIn(0, Map.empty))
  }
}
