package io.tailrace.label

import io.tailrace.common.TailraceConf
import io.tailrace.testkit.StreamHarness.options
import io.tailrace.testkit.Times.micros
import io.tailrace.testkit.{Emitted, Engaged, JoinQueries, SlowSuite, SparkSuite, StreamHarness}

/** A right row behind the watermark is matched as long as its left row waits. */
class LateLabelsSuite extends SparkSuite with SlowSuite with JoinQueries {
  private val after10 = options("10 seconds")

  /** Left rows at 92 and 95 wait, and the watermark is at 100. */
  private def at100(h: StreamHarness): Unit = {
    h.step(Seq(served(92, 1), served(95, 2)), Seq(engaged(93, 10)))
    h.step(Seq(served(100, 0, "start")), Seq(engaged(100, 0, "other")))
    ()
  }

  Seq("lazy", "eager").foreach { strategy =>
    test(s"a late right row is matched with each left row that waits: $strategy") {
      query(after10, TailraceConf.JoinStrategy.key -> strategy) { h =>
        at100(h)
        h.right(engaged(94, 11), engaged(97, 12), engaged(90, 13))
        h.step(far._1, far._2)
        assert(groups(h) == Map(1 -> Seq(10, 11, 12), 2 -> Seq(12)))
        assert(h.total(LabelMetrics.LateRightRowsAccepted) == 2 && h.total(LabelMetrics.LateRightRows) == 1)
        assert(h.dropped == 1)
      }
    }

    test(s"a left row that waits for a step doesn't get a right row that comes after its window: $strategy") {
      val o = after10.copy(releaseEvery = Some("40 seconds"))
      query(
        o,
        TailraceConf.JoinStrategy.key -> strategy,
        "spark.sql.shuffle.partitions" -> 1,
        TailraceConf.BatchBufferBytes.key -> 1
      ) { h =>
        // The first watermark releases: from now on a step is from 80 to 120.
        h.step(Seq(served(91, 5, "start")), Seq(engaged(91, 0, "other")))
        at100(h)
        h.step(Seq(served(103, 0, "start")), Seq(engaged(103, 0, "other")))
        assert(groups(h) == Map.empty)
        // The window of 92 has closed at 102, that of 95 has not.
        h.right(engaged(96, 11))
        h.step(Seq(served(104, 6, "start")), Seq(engaged(95.5, 12)))
        h.restart()
        h.step(far._1, far._2)
        assert(groups(h) == Map(1 -> Seq(10), 2 -> Seq(12, 11)))
      }
    }
  }

  test("a pair with a late right row comes out as long as the left row waits") {
    query(after10.copy(how = "inner")) { h =>
      // Both in one section. The window of the first one has closed.
      h.step(Seq(served(90, 3), served(90.5, 4)), Nil)
      at100(h)
      val now = h.right(engaged(94, 11), engaged(90, 12)).flatten
      assert(now == Seq(Emitted("k", Some(1), Seq(11)), Emitted("k", Some(4), Seq(11))))
      assert(h.total(LabelMetrics.LateRightRowsAccepted) == 1 && h.total(LabelMetrics.LateRightRows) == 1)
    }
  }

  test("with on_late = mark a late right row is marked if no left row that waits can match it by its time") {
    query(after10.copy(onLate = "mark", before = "2 seconds")) { h =>
      at100(h)
      // Left rows after 90 wait: the right row of 88.000001 may be before one of them.
      val taken = Engaged("nobody", micros(88000001), 12)
      val marked = h.right(engaged(94, 11), engaged(88, 13), taken).flatten.filter(_.mark.nonEmpty)
      assert(marked == Seq(Emitted("k", None, Seq(13), mark = Some("late_right"))))
      h.step(far._1, far._2)
      assert(groups(h) == Map(1 -> Seq(10, 11), 2 -> Seq(10, 11)))
    }
  }

  test("late_labels = false drops all right rows behind the watermark") {
    query(after10.copy(lateLabels = Some(false))) { h =>
      at100(h)
      h.right(engaged(94, 11), engaged(100, 12))
      h.step(far._1, far._2)
      assert(groups(h) == Map(1 -> Seq(10), 2 -> Nil))
      assert(h.total(LabelMetrics.LateRightRowsAccepted) == 0 && h.total(LabelMetrics.LateRightRows) == 2)
    }
  }
}
