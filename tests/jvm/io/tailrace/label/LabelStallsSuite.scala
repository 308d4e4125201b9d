package io.tailrace.label

import java.util.UUID

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{Policy, TailraceStateException}
import io.tailrace.explain.{LabelFacts, LabelStreamFacts, WaitText}
import io.tailrace.join.OnStall
import io.tailrace.testkit.Warnings

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

  test("an excluded stream counts again when it has been read as far as the query, and not before") {
    val of = stalls(Policy.Exclude)
    of.see(Map(bought -> Some(0L)))
    assert(run(of, 1 to 9).isEmpty, "nobody waits for it, so it isn't told as one that stalls")
    assert(of.excluded.map { case (stream, ms) =>
      stream.labels -> ms
    } == Seq(Seq("buy", "order") -> Some(0L)))
    assert(of.facts.map(_.idleMs) == Seq(0L, 80 * second))
    def again(batch: Long, readTo: Long): Boolean = {
      of.see(Map(bought -> Some(readTo)))
      val times = Map(served -> Some(9 * second), clicked -> Some(9 * second), bought -> Some(9 * second))
      of.begins(batch, batch * 10 * second, hasInput = true, _ => true, times, queryMs = 5 * second)
      of.excluded.isEmpty
    }
    assert(!again(10, 5 * second - 1))
    // A row that comes late takes nothing back.
    of.see(Map(bought -> Some(2 * second), clicked -> None))
    assert(of.excluded.map(_._2) == Seq(Some(5 * second - 1)))
    assert(again(11, 5 * second))
  }

  test("the watermark goes on with the slowest of the streams that count, and not before each has one") {
    val of = stalls(Policy.Exclude)
    def times(click: Option[Long], buy: Option[Long]) =
      Map(served -> Some(9 * second), clicked -> click, bought -> buy)
    def target(of: LabelStalls, times: Map[UUID, Option[Long]]) = of.target(times, of.excludedNodes())
    assert(target(of, times(Some(7 * second), Some(0L))).isEmpty, "nobody is excluded")
    run(of, 1 to 9): Unit
    assert(target(of, times(Some(7 * second), Some(0L))).contains(7 * second))
    assert(target(of, times(None, Some(0L))).isEmpty)
    assert(of.isBehind(times(Some(7 * second), Some(7 * second - 1))))
    assert(of.isBehind(times(Some(7 * second), None)))
    assert(!of.isBehind(times(Some(7 * second), Some(7 * second))))
    assert(!of.isBehind(times(None, Some(0L))))
  }

  test("a start knows by the note of its first batch who is excluded; the others are as far as the query") {
    def started(note: ExcludedStreams, queryMs: Long): LabelStalls = {
      val of = stalls(Policy.Exclude)
      of.begins(20, 0, hasInput = true, _ => false, Map(served -> Some(9 * second)), note, queryMs)
      of
    }
    val read = Some(4 * second)
    val excluded = started(ExcludedStreams(Map("buy" -> read, "order" -> read)), 9 * second)
    assert(excluded.excluded.map(_._2) == Seq(read) && excluded.excludedNodes() == Set(bought))
    assert(started(ExcludedStreams.None, 9 * second).excluded.isEmpty)
    assert(started(ExcludedStreams.None, 9 * second).facts.last.readTo.contains(9 * second * 1000))
    assert(started(ExcludedStreams.None, 0).facts.last.readTo.isEmpty)
    // Only the first batch restores: what comes later is known.
    excluded.begins(21, 0, hasInput = true, _ => true, Map.empty, ExcludedStreams.None, 4 * second)
    assert(excluded.excluded.isEmpty)
  }

  test("a stream of several sources has been read as far as the slowest of them, if each has had rows") {
    val of = new LabelStalls(Seq(LabelStream(Seq("buy"), Set(bought, clicked), OnStall(Policy.Pause, 1))))
    def readTo(batch: Long, times: (UUID, Option[Long])*): Option[Long] = {
      of.begins(batch, 0, hasInput = true, _ => true, times.toMap)
      of.facts.head.readTo
    }
    assert(readTo(1, bought -> Some(7), clicked -> Some(5)).contains(5000))
    assert(readTo(2, bought -> Some(7), clicked -> None).isEmpty)
    assert(readTo(3, bought -> Some(7)).isEmpty)
  }

  test("a stream that stalls is told of once, and again when it has had rows meanwhile") {
    val of = stalls()
    val told = Warnings.of(of.getClass.getName) {
      run(of, 1 to 9): Unit
      (10 to 14).foreach(batch => run(of, batch to batch))
    }
    assert(told.count(_.contains("TAILRACE_EXAMPLES_STALLED")) == 1)
    val again = Warnings.of(of.getClass.getName) {
      run(of, 15 to 15, hasRows = _ => true): Unit
      assert(run(of, 16 to 40).contains(23))
    }
    assert(again.count(_.contains("TAILRACE_EXAMPLES_STALLED")) == 1)
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
