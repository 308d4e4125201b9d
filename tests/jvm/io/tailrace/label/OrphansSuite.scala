package io.tailrace.label

import io.tailrace.common.{TailraceAnalysisException, TailraceConf}
import io.tailrace.state.StoreKind
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.micros
import io.tailrace.testkit.{Emitted, Engaged, JoinQueries, Served, SlowSuite, SparkSuite, StreamHarness}

/** Right rows that no left row has. */
class OrphansSuite extends SparkSuite with SlowSuite with JoinQueries {
  private val after10 = options("10 seconds").copy(releaseEvery = Some("batch"), orphans = true)

  private def orphan(id: Int, mark: String = "unmatched_right", k: String = "k") =
    Emitted(k, None, Seq(id), mark = Some(mark))

  /** Rows that are emitted on their own. */
  private def alone(h: StreamHarness): Seq[Emitted] = h.all.filter(_.mark.nonEmpty)

  test(
    "a right row of another key, and one outside of the window, are emitted when no left row can match them"
  ) {
    query(after10) { h =>
      h.step(Seq(served(10, 1)), Seq(engaged(12, 11), engaged(9, 12), engaged(11, 13, "other")))
      h.step(Seq(served(20, 0, "start")), Seq(engaged(21, 14)))
      // The watermark is 20: windows of left rows up to 10 have closed.
      assert(alone(h) == Seq(orphan(12)))
      h.step(Seq(served(21, 0, "start")), Seq(engaged(22, 0, "start")))
      assert(groups(h) == Map(1 -> Seq(11)) && alone(h) == Seq(orphan(12), orphan(13, k = "other")))
      h.step(far._1, far._2)
      assert(alone(h).filter(_.key == "k") == Seq(orphan(12), orphan(14)))
      assert(h.total(LabelMetrics.UnmatchedRightRows) == 3)
    }
  }

  test("eager matching evicts right rows unread: a join with orphans is lazy") {
    query(after10, TailraceConf.JoinStrategy.key -> "eager") { h =>
      h.step(Seq(served(10, 1)), Seq(engaged(12, 11), engaged(9, 12)))
      h.step(far._1, far._2)
      assert(groups(h) == Map(1 -> Seq(11)) && alone(h).filter(_.key == "k") == Seq(orphan(12)))
    }
  }

  test("one that a policy or a cap leaves out isn't an orphan") {
    for (o <- Seq(after10.copy(`match` = "first"), after10.copy(maxMatches = Some(1))))
      query(o) { h =>
        h.step(Seq(served(10, 1)), Seq(engaged(12, 11), engaged(13, 12)))
        h.step(far._1, far._2)
        assert(alone(h).isEmpty && groups(h) == Map(1 -> Seq(11)))
      }
  }

  test("a right row before its left row is decided when that has been emitted") {
    query(after10.copy(before = "5 seconds")) { h =>
      h.step(Seq(served(12, 1)), Seq(engaged(9, 11), engaged(4.9, 12)))
      // Left rows up to 10 have been emitted: right rows up to 5 are decided.
      h.step(Seq(served(20, 0, "start")), Seq(engaged(20, 0, "start")))
      assert(alone(h) == Seq(orphan(12)))
      h.step(far._1, far._2)
      assert(groups(h) == Map(1 -> Seq(11)) && alone(h).filter(_.key == "k") == Seq(orphan(12)))
    }
  }

  test("a step of decisions doesn't go further than the left rows that have been emitted") {
    val every = options("16 seconds").copy(releaseEvery = Some("1 second"), orphans = true)
    query(every) { h =>
      h.step(Seq(served(30.2, 1)), Seq(engaged(30.5, 11), engaged(29.9, 12, "other")))
      // Left rows up to 30.1 have been emitted: right rows up to 30 are decided.
      h.step(Seq(served(46.1, 0, "start")), Seq(engaged(46.1, 0, "start")))
      assert(alone(h) == Seq(orphan(12, k = "other")))
      h.step(far._1, far._2)
      assert(groups(h) == Map(1 -> Seq(11)) && !alone(h).exists(_.key == "k"))
    }
  }

  test("a match is remembered over micro-batches and restarts, until its right row is evicted") {
    query(after10) { h =>
      h.step(Seq(served(10, 1)), Seq(engaged(19, 11), engaged(19, 12, "other")))
      h.step(Seq(served(21, 0, "start")), Seq(engaged(21, 0, "start")))
      h.step(Nil, Seq(engaged(21, 1, "start")))
      // (k, 10) has been emitted, and a left row of 19 could still match.
      assert(groups(h) == Map(1 -> Seq(11)) && alone(h).isEmpty)
      h.restart()
      h.step(Seq(served(40, 0, "start")), Seq(engaged(40, 0, "start")))
      h.restart()
      h.step(far._1, far._2)
      assert(alone(h).filter(_.key != "start") == Seq(orphan(12, k = "other")))
    }
  }

  test("a note stays as long as the section of its right row") {
    query(after10) { h =>
      h.step(Seq(served(10, 1)), Seq(engaged(12.1, 11), engaged(12.4, 12, "other")))
      // Decided through 12.2: one row of the section, and not the other one.
      h.step(Seq(served(22.2, 0, "start")), Seq(engaged(22.2, 0, "start")))
      assert(groups(h) == Map(1 -> Seq(11)))
      h.restart()
      h.step(far._1, far._2)
      assert(alone(h).filter(_.key != "start") == Seq(orphan(12, k = "other")))
    }
  }

  test("a right row without a key, and a late one, are emitted at once") {
    query(after10) { h =>
      h.step(Seq(served(10, 1)), Seq(engaged(12, 11), engaged(12, 12, null)))
      assert(alone(h) == Seq(orphan(12, "null_right", null)))
      h.step(far._1, far._2)
      h.step(Seq(served(900, 2)), Seq(engaged(901, 13)))
      assert(alone(h).contains(orphan(13, "late_right")))
      // A late left row is dropped nevertheless.
      assert(!h.all.exists(_.id.contains(2)))
      assert(h.dropped == 1 && h.total(LabelMetrics.LateRightRows) == 1)
    }
  }

  test("a right row is late where no open window has it, and a microsecond later it may still match") {
    query(after10.copy(before = "2 seconds")) { h =>
      h.step(far._1, far._2)
      // Windows of left rows up to 990 have closed.
      val at = Seq(988000000L -> 21, 988000001L -> 22)
      val now = h.step(Nil, at.map { case (t, id) => Engaged("k", micros(t), id) }).flatten
      assert(now == Seq(orphan(21, "late_right")))
      h.step(Seq(Served("k", micros(990000001), 1)), Nil)
      h.step(Seq(served(2000, 0, "end")), Seq(engaged(2000, 0, "end")))
      assert(groups(h) == Map(1 -> Seq(22)) && alone(h).filter(_.key == "k") == Seq(orphan(21, "late_right")))
    }
  }

  test("a late right row that came after its left row had closed is an orphan") {
    query(after10.copy(releaseEvery = Some("1 hour"))) { h =>
      h.step(Seq(served(10, 1), served(18, 2, "other")), Seq(engaged(11, 11)))
      h.step(Seq(served(22, 0, "start")), Seq(engaged(22, 0, "start")))
      h.step(Nil, Seq(engaged(23, 0, "start")))
      // The watermark is 22: the window of 10 has closed, that of 18 hasn't.
      h.step(Nil, Seq(engaged(12.5, 12), engaged(20, 13)))
      h.step(Seq(served(100000, 3, "end")), Seq(engaged(100000, 0, "end")))
      assert(groups(h) == Map(1 -> Seq(11)))
      assert(alone(h).filter(_.key == "k") == Seq(orphan(12), orphan(13)))
    }
  }

  test("hot keys whose rows have no room in memory are noted, too") {
    for (o <- Seq(after10, after10.copy(`match` = "last")))
      query(o, TailraceConf.BatchBufferBytes.key -> 1000) { h =>
        val many = (0 until 200).map(i => engaged(10 + i / 20.0, i))
        h.step(Seq(served(10, 1), served(12, 2)), many ++ Seq(engaged(9.9, 300), engaged(22.1, 301)))
        h.step(far._1, far._2)
        assert(alone(h).filter(_.key == "k") == Seq(orphan(300), orphan(301)))
      }
  }

  test("its rows are evicted from the state with their notes") {
    withDirectory { directory =>
      val h = new StreamHarness(spark, directory)(join(after10)).start()
      for (t <- 10 to 200 by 10)
        h.step(Seq(served(t.toDouble, t)), Seq(engaged(t + 1.0, t), engaged(t + 1.0, t, "other")))
      h.step(Nil, Seq(engaged(211, 0, "start")))
      val state = spark.read
        .format("statestore")
        .load(directory.getPath)
        .selectExpr("key.tailrace_store AS store", "key.event_time AS t")
      val notes = state.where(s"store = '${StoreKind.MatchedRight.name}'").count()
      assert(notes > 0 && notes < 10)
    }
  }

  Seq(
    after10.copy(how = "inner", releaseEvery = None) -> "TAILRACE_JOIN_OPTION_CONFLICT",
    after10.copy(`match` = "first", release = "decided") -> "TAILRACE_OPTION_CONFLICT",
    after10.copy(horizons = Seq("1 second")) -> "TAILRACE_OPTION_CONFLICT",
    after10.copy(early = Some("1 second")) -> "TAILRACE_OPTION_CONFLICT",
    after10.copy(amendFor = Some("1 second")) -> "TAILRACE_OPTION_CONFLICT",
    after10.copy(idleTimeout = Some("1 second")) -> "TAILRACE_OPTION_CONFLICT",
    after10.copy(saltedKeys = Seq(Seq("k"))) -> "TAILRACE_OPTION_CONFLICT"
  ).zipWithIndex.foreach { case ((o, condition), i) =>
    test(s"it is refused with options that decide right rows otherwise: $i") {
      val refused = intercept[TailraceAnalysisException](o.settings)
      assert(refused.getCondition == condition && refused.getMessage.contains("orphans"))
    }
  }

  test("it is refused where a side may be excluded: the side's rows would be orphans when it is back") {
    val excludes = after10.copy(onStall = "exclude", stallAfter = Some("1 minute"))
    val refused = intercept[TailraceAnalysisException](query(excludes)(_ => ()))
    assert(refused.getCondition == "TAILRACE_OPTION_CONFLICT")
    assert(refused.getMessageParameters.get("other") == "on_stall")
  }

  test("a checkpoint pins it") {
    query(after10) { h =>
      h.step(Seq(served(10, 1)), Seq(engaged(12, 11)))
      h.stop()
      val refused = intercept[Exception] {
        h.start(join(after10.copy(orphans = false))(_, _))
        h.step(Seq(served(11, 2)), Nil)
      }
      assert(Iterator.iterate[Throwable](refused)(_.getCause).takeWhile(_ != null).exists { e =>
        e.getMessage.contains("`orphans`")
      })
    }
  }
}
