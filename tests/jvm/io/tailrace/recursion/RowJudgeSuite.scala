package io.tailrace.recursion

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.Policy

final class RowJudgeSuite extends AnyFunSuite {
  private val plain = RecursionSettings("r")

  test("without limits every row comes out and goes round") {
    val judge = new RowJudge(plain)
    assert((1 to 1000).forall(depth => judge.judge(depth, closesCycle = false) == Verdict.GoesRound))
    assert((judge.returned, judge.stopped, judge.cycles) == (1000, 0, 0))
  }

  test("max_depth: the last hop goes round, and what comes of it is an error") {
    val judge = new RowJudge(plain.copy(maxDepth = Some(3)))
    assert(judge.judge(3, closesCycle = false) == Verdict.GoesRound)
    assert(judge.judge(4, closesCycle = false) == Verdict.TooDeep)
    assert(judge.returned == 1)
  }

  test("without max_depth a guard against loops is an error, whatever on_limit is") {
    Seq(Policy.Fail, Policy.Drop).foreach { onLimit =>
      val judge = new RowJudge(plain.copy(onLimit = onLimit))
      assert(judge.judge(RecursionSettings.Guard, closesCycle = false) == Verdict.GoesRound)
      assert(judge.judge(RecursionSettings.Guard + 1, closesCycle = false) == Verdict.Runaway)
      assert((judge.returned, judge.stopped) == (1, 0))
    }
    val deep = new RowJudge(plain.copy(maxDepth = Some(RecursionSettings.Guard * 2)))
    assert(deep.judge(RecursionSettings.Guard + 1, closesCycle = false) == Verdict.GoesRound)
  }

  test("max_depth, stop: the last hop comes out, is counted, and doesn't go round") {
    val judge = new RowJudge(plain.copy(maxDepth = Some(3), onLimit = Policy.Drop))
    assert(judge.judge(2, closesCycle = false) == Verdict.GoesRound)
    assert(judge.judge(3, closesCycle = false) == Verdict.Returned)
    assert((judge.returned, judge.stopped) == (2, 1))
  }

  test("max_rows: so many come out, and the next one is an error, or is left out and counted") {
    val strict = new RowJudge(plain.copy(maxRows = Some(2)))
    assert(Seq.fill(3)(strict.judge(1, closesCycle = false)).last == Verdict.TooMany)
    assert(strict.returned == 2)
    val lenient = new RowJudge(plain.copy(maxRows = Some(2), onLimit = Policy.Drop))
    assert(
      Seq.fill(4)(lenient.judge(1, closesCycle = false)) ==
        Seq(Verdict.GoesRound, Verdict.GoesRound, Verdict.Dropped, Verdict.Dropped)
    )
    assert((lenient.returned, lenient.stopped) == (2, 2))
  }

  test("a row that closes a cycle never goes round") {
    val verdicts = Map(
      Policy.Fail -> Verdict.Cycle,
      Policy.Drop -> Verdict.Dropped,
      Policy.Mark -> Verdict.Returned
    )
    verdicts.foreach { case (action, verdict) =>
      val judge = new RowJudge(plain.copy(onCycle = action))
      assert(judge.judge(1, closesCycle = true) == verdict)
      assert(judge.cycles == 1)
      assert(judge.returned == (if (action == Policy.Mark) 1 else 0))
      assert(!verdict.isFedBack)
    }
  }
}
