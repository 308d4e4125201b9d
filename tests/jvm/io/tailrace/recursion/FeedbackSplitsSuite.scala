package io.tailrace.recursion

import org.scalatest.funsuite.AnyFunSuite

final class FeedbackSplitsSuite extends AnyFunSuite {
  private val most = FeedbackSplits.Bytes

  test("small files share a task, a large one has its own, and each is read once, in order") {
    val files = Seq("a" -> 10L, "b" -> 20L, "c" -> most, "d" -> (most - 1), "e" -> 1L, "f" -> 1L)
    assert(FeedbackSplits.group(files) == Seq(Seq("a", "b"), Seq("c"), Seq("d", "e"), Seq("f")))
    assert(FeedbackSplits.group(Nil).isEmpty)
  }
}
