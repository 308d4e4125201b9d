package io.tailrace.label

import io.tailrace.common.{TailraceAnalysisException, TailraceConf}
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.micros
import io.tailrace.testkit.{Emitted, JoinQueries, Served, SlowSuite, SparkSuite, StreamHarness}

/** A left row behind the watermark is joined as long as its window is open. */
class LateImpressionsSuite extends SparkSuite with SlowSuite with JoinQueries {
  private val after10 = options("10 seconds").copy(releaseEvery = Some("batch"))

  private def counts(h: StreamHarness): (Long, Long) =
    (h.total(LabelMetrics.LateLeftRowsAccepted), h.total(LabelMetrics.LateLeftRows))

  /** Right rows are there, and the watermark is at 100: windows of left rows up to 90 have closed. */
  private def at100(h: StreamHarness): Unit = {
    h.step(Seq(served(92, 1)), Seq(engaged(88, 9), engaged(91, 10), engaged(99, 11)))
    h.step(Seq(served(100, 0, "start")), Seq(engaged(100, 0, "other")))
    ()
  }

  test("a late left row has all right rows of its window, and one whose window has closed is late") {
    query(after10.copy(before = "3 seconds")) { h =>
      at100(h)
      // The least time whose window is open at 100 is 90.000001.
      h.step(Seq(Served("k", micros(90000001), 2), served(90, 3), served(100, 4)), Nil)
      h.restart()
      h.step(far._1, far._2)
      assert(groups(h) == Map(1 -> Seq(10, 11), 2 -> Seq(9, 10, 11), 4 -> Seq(11)))
      assert(h.all.count(_.id.contains(2)) == 1)
    }
  }

  test("late left rows are counted, and the others are dropped or marked") {
    query(after10) { h =>
      at100(h)
      h.step(Seq(served(95, 2), served(90, 3)), Nil)
      assert(counts(h) == (1L, 1L) && h.dropped == 1)
    }
    query(after10.copy(onLate = "mark")) { h =>
      at100(h)
      val now = h.step(Seq(served(95, 2), served(90, 3)), Nil).flatten
      assert(now == Seq(Emitted("k", Some(3), Nil, mark = Some("late_left"))))
    }
  }

  test("one whose window closes in the micro-batch that reads it is emitted in this one") {
    query(after10) { h =>
      at100(h)
      // The watermark is 104 in the next micro-batch.
      h.step(Seq(served(104, 0, "start")), Seq(engaged(104, 0, "other")))
      val now = h.step(Seq(served(94, 2), served(94.5, 3)), Nil).flatten
      assert(now.isEmpty && counts(h) == (1L, 1L))
      assert(h.step(far._1, far._2).flatten.filter(_.key == "k") == Seq(Emitted("k", Some(3), Seq(11))))
    }
  }

  test("late_impressions = false takes none, and may change at a restart") {
    query(after10.copy(lateImpressions = Some(false))) { h =>
      at100(h)
      h.step(Seq(served(95, 2)), Nil)
      h.stop()
      h.start(join(after10)(_, _))
      h.step(Seq(served(96, 3)), Nil)
      h.step(far._1, far._2)
      assert(groups(h) == Map(1 -> Seq(11), 3 -> Seq(11)))
    }
  }

  test("eager matching takes none, unless they are asked for: then it is lazy") {
    query(after10, TailraceConf.JoinStrategy.key -> "eager") { h =>
      at100(h)
      h.step(Seq(served(95, 2)), Nil)
      assert(counts(h) == (0L, 1L))
    }
    query(after10.copy(lateImpressions = Some(true)), TailraceConf.JoinStrategy.key -> "eager") { h =>
      at100(h)
      h.step(Seq(served(91, 2)), Nil)
      h.step(far._1, far._2)
      assert(groups(h) == Map(1 -> Seq(11), 2 -> Seq(10, 11)))
    }
  }

  test("with horizons a late left row is taken as long as its first version is to come") {
    query(after10.copy(horizons = Seq("4 seconds"), onLate = "mark")) { h =>
      at100(h)
      h.step(Seq(served(96.5, 2), served(96, 3)), Nil)
      h.step(far._1, far._2)
      val mine = h.all.filter(_.key == "k")
      assert(mine.filter(_.id.contains(2)).map(_.labels) == Seq(Seq(11), Seq(11)))
      assert(mine.filter(_.id.contains(3)).map(_.mark) == Seq(Some("late_left")))
    }
  }

  Seq(
    after10.copy(how = "inner", releaseEvery = None) -> "TAILRACE_JOIN_OPTION_CONFLICT",
    after10.copy(`match` = "first", release = "decided") -> "TAILRACE_OPTION_CONFLICT"
  ).foreach { case (o, condition) =>
    test(s"it is refused with how = ${o.how}, release = ${o.release}") {
      val refused =
        intercept[TailraceAnalysisException](o.copy(lateImpressions = Some(true)).settings)
      assert(refused.getCondition == condition && refused.getMessage.contains("late_impressions"))
    }
  }
}
