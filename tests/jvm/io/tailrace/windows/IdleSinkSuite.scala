package io.tailrace.windows

import org.scalatest.funsuite.AnyFunSuite

/** Which requests to the sources count as idle time of a sink. */
final class IdleSinkSuite extends AnyFunSuite {
  private var answered = Option.empty[Long]
  private def sink = new IdleSink(80, () => answered)

  /** Spark asks the sources at these times. @return the first of them at which windows close */
  private def ask(of: IdleSink, times: Iterable[Long]): Option[Long] = times.find { ms =>
    answered = Some(ms)
    of.isTooLong
  }

  test("requests without an answer add up, and begin anew when windows have closed") {
    val of = sink
    of.landed(0, 0, hasRows = true)
    assert(ask(of, 5L to 1000L by 5).contains(80L))
    assert(ask(of, 85L to 1000L by 5).contains(160L))
  }

  test("a request counts once, and an eighth of the timeout at most: one that comes late is no silence") {
    val of = sink
    of.landed(0, 0, hasRows = true)
    assert(ask(of, Seq.fill(1000)(10L)).isEmpty)
    assert(ask(of, Seq(100000L)).isEmpty)
    assert(ask(of, 100010L to 101000L by 10).contains(100060L))
  }

  test("a request from before a batch counts no time twice") {
    val of = sink
    of.landed(0, 75, hasRows = true)
    assert(ask(of, Seq.fill(100)(Seq(70L, 75L)).flatten).isEmpty)
  }

  test("the thread looks often enough to see each eighth of the timeout, and each second without one") {
    val hour = 3600L * 1000
    val every = Seq(None, Some(hour), Some(8000L), Some(800L), Some(8L)).map(ClosingThread.every)
    assert(every == Seq(1000L, 1000L, 1000L, 100L, 20L))
  }

  test("rows begin the measurement anew, and a batch without them doesn't") {
    val of = sink
    of.landed(0, 0, hasRows = true)
    assert(ask(of, 10L to 70L by 10).isEmpty)
    of.landed(1, 75, hasRows = false)
    assert(ask(of, Seq(80L)).contains(80L))
    val other = sink
    other.landed(0, 0, hasRows = true)
    assert(ask(other, 10L to 70L by 10).isEmpty)
    other.landed(1, 75, hasRows = true)
    assert(ask(other, 80L to 150L by 10).isEmpty)
    assert(ask(other, Seq(155L)).contains(155L))
  }

  test("while Spark asks, and while a batch is made or runs, nothing closes") {
    val of = sink
    of.landed(0, 0, hasRows = true)
    answered = None
    assert(!(1 to 1000).exists(_ => of.isTooLong))
  }
}
