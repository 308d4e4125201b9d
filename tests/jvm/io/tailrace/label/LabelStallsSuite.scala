package io.tailrace.label

import java.util.UUID

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{Policy, TailraceStateException}
import io.tailrace.explain.{LabelFacts, LabelStreamFacts, WaitText}
import io.tailrace.join.OnStall

/** Which of the streams that examples wait for is told of, and when. */
final class LabelStallsSuite extends AnyFunSuite {
  private val second = 1000L
  private val served = UUID.randomUUID()
  private val clicked = UUID.randomUUID()
  private val bought = UUID.randomUUID()

  private def stalls(buy: Policy = Policy.Pause): LabelStalls = new LabelStalls(
    Seq(
      LabelStream(Seq("click"), Set(clicked), OnStall(Policy.Pause, 80 * second)),
      LabelStream(Seq("buy", "order"), Set(bought), OnStall(buy, 80 * second))
    )
  )

  /** Batches 10 seconds apart, in which all streams but that of the orders have rows. @return the first that stalls */
  private def run(
      of: LabelStalls,
      batches: Range,
      hasRows: LabelStream => Boolean = _.labels.contains("click"),
      buyMs: Option[Long] = Some(0L)
  ): Option[Int] = batches.find { batch =>
    val times = Map(served -> Some(batch * second), clicked -> Some(batch * second), bought -> buyMs)
    of.begins(batch.toLong, batch * 10 * second, hasInput = true, hasRows, times)
    of.facts.exists(_.isStalled)
  }

  test("a stream that gives nothing for long while others do, and is behind them, has stalled") {
    val of = stalls()
    assert(run(of, 1 to 20).contains(9))
    assert(of.facts.filter(_.isStalled).map(_.labels) == Seq(Seq("buy", "order")))
    assert(of.facts.map(_.idleMs) == Seq(0L, 80 * second))
    assert(run(of, 10 to 10, hasRows = _ => true).isEmpty, "rows again, or unread ones")
  }

  test("a stream of which no row has come is behind; one that is ahead of all others isn't") {
    assert(run(stalls(), 1 to 20, buyMs = None).contains(9))
    assert(run(stalls(), 1 to 20, buyMs = Some(1000 * second)).isEmpty)
  }

  test("nobody stalls while nobody has rows") {
    val of = stalls()
    (1 to 100).foreach { batch =>
      of.begins(batch.toLong, batch * 10 * second, hasInput = false, _ => false, Map(served -> Some(5L)))
    }
    assert(of.facts.forall(facts => !facts.isStalled && facts.idleMs == 0))
  }

  test("with on_stall = fail the query ends, and a new start counts anew") {
    val error = intercept[TailraceStateException](run(stalls(Policy.Fail), 1 to 20))
    assert(error.getCondition == "TAILRACE_EXAMPLES_STALLED")
    assert(error.getMessage.contains("the stream of label buy, order. It has had no rows for 1 min 20 s"))
    assert(run(stalls(Policy.Fail), 9 to 16).isEmpty)
  }

  test("the sentences of a query that gives nothing name it") {
    val facts = LabelStreamFacts(Seq("buy"), None, 90 * second, isStalled = true, "pause", 80 * second)
    val told = WaitText.of(LabelFacts(isGrouped = true, 1, None, None, None, None, streams = Seq(facts)))
    assert(
      told.contains(
        "The stream of label 'buy' has stalled: it has had no rows for 1 min 30 s while others had rows, and no row of " +
          "it has arrived since the query started. on_stall is 'pause': the join waits until it has rows again."
      )
    )
  }
}
