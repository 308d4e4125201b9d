package io.tailrace.recursion

import org.scalatest.funsuite.AnyFunSuite

final class FeedbackNameSuite extends AnyFunSuite {
  private val a = "a" * 32
  private val b = "b" * 32
  private def names(run: Int, id: String, tasks: Int)(written: Int*) =
    written.map(FeedbackName(run, id, _, tasks))

  test("a name is read as it was written, and others aren't names") {
    val name = FeedbackName(3, a, 1, 8)
    assert(name.toString == s"3-$a-1-of-8.fed")
    assert(FeedbackName.parse(name.toString).contains(name))
    assert(FeedbackAttempt.parse(name.attempt.toString).contains(FeedbackAttempt(3, a)))
    FeedbackContent.all.foreach { content =>
      assert(FeedbackName.parse(name.copy(content = content).toString).contains(name.copy(content = content)))
    }
    Seq("", s".$name.tmp", s"$name.crc", s"99999999999-$a-1-of-8.fed", s"3-$a-1-of-8.txt", "3-xyz-1-of-8.fed")
      .foreach(text => assert(FeedbackName.parse(text).isEmpty, text))
  }

  test("the rows of a batch are those of the newest run that is complete, never of two") {
    val first = names(0, a, 2)(0, 1)
    val halfway = names(1, b, 2)(1)
    assert(FeedbackName.complete(first ++ halfway).contains(FeedbackAttempt(0, a)))
    assert(FeedbackName.complete(first ++ names(1, b, 2)(0, 1)).contains(FeedbackAttempt(1, b)))
    assert(FeedbackName.complete(names(0, a, 3)(0, 1) ++ names(1, b, 3)(2)).isEmpty)
    assert(FeedbackName.complete(Nil).isEmpty)
  }

  test("of two runs with one number one is taken, always the same") {
    val both = names(0, b, 1)(0) ++ names(0, a, 1)(0)
    assert(FeedbackName.complete(both).contains(FeedbackAttempt(0, a)))
    assert(FeedbackName.complete(both.reverse).contains(FeedbackAttempt(0, a)))
  }

  test("a run without tasks is complete with the one file that says so") {
    assert(FeedbackName.complete(names(0, a, 0)(0)).contains(FeedbackAttempt(0, a)))
  }

  test("only a file of an earlier release has no rows because it has no bytes") {
    def has(content: FeedbackContent)(length: Long) = FeedbackName(0, a, 0, 1, content).hasRows(length)
    assert(has(FeedbackContent.Rows)(0) && has(FeedbackContent.Rows)(9))
    assert(!has(FeedbackContent.NoRows)(0) && !has(FeedbackContent.NoRows)(9))
    assert(!has(FeedbackContent.Format1)(0) && has(FeedbackContent.Format1)(9))
  }

  test("the next run is after all that have left a file") {
    assert(FeedbackName.nextRun(Nil) == 0)
    assert(FeedbackName.nextRun(names(0, a, 2)(0) ++ names(4, b, 2)(1)) == 5)
  }
}
