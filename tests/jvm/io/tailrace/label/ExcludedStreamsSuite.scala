package io.tailrace.label

import java.io.File
import java.nio.file.Files

import org.apache.spark.sql.DataFrame

import io.tailrace.common.{Policy, TailraceAnalysisException, TailraceConf}
import io.tailrace.join.OnStall
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.{micros, seconds}
import io.tailrace.testkit._

/** Joins whose watermark goes on without a side that has stalled. */
final class ExcludedStreamsSuite extends SparkSuite {
  private val limit = 80L * 1000
  private val excluding = options("10 seconds")
    .copy(releaseEvery = Some("batch"), onStall = "exclude", stallAfter = Some("80 seconds"))

  private def served(t: Double, id: Int) = Served("k", seconds(t), id)
  private def engaged(t: Double, rid: Int) = Engaged("k", seconds(t), rid)
  private def row(id: Int, mark: Option[String], labels: Int*) = Emitted("k", Some(id), labels, mark = mark)
  private val excluded = Some("excluded")

  private def query(of: JoinOptions = excluding)(body: (StreamHarness, ManualClock, File) => Unit): Unit =
    withClock { (d: File, clock: ManualClock) =>
      val h = new StreamHarness(spark, d, Some(clock))(join(of)).start()
      try body(h, clock, d)
      finally h.stop()
    }

  /** Left rows of some seconds, a batch each, an eighth of the limit apart. @return what comes out of each */
  private def lefts(h: StreamHarness, clock: ManualClock, seconds: Range): Seq[Emitted] = seconds.flatMap {
    t =>
      clock.advance(limit / 8)
      h.left(served(t.toDouble, t)).flatten
  }

  test("rows come out without the stalled side, marked, and it counts again when it has caught up") {
    query() { (h, clock, _) =>
      h.step(Seq(served(1, 1)), Seq(engaged(2, 102)))
      assert(lefts(h, clock, 20 to 26).isEmpty, "the right side is at 2")
      // Its ninth batch makes the right side stall; the watermark is one batch behind the left side from then on.
      val out = lefts(h, clock, 27 to 40)
      assert(out.map(_.id.get) == 1 +: (20 to 30))
      assert(out.map(_.mark).toSet == Set(excluded) && out.head.labels == Seq(102))
      assert(h.total(LabelMetrics.EmittedIncomplete) == out.size)
      // The right side is back: what is behind the watermark is late, and finds the rows that are buffered.
      val back = h.right(engaged(32, 132), engaged(38.5, 138)).flatten
      assert(back.isEmpty && h.total(LabelMetrics.LateRightRowsAccepted) == 2)
      // At 45 it has caught up. It holds the watermark again.
      h.right(engaged(45, 145))
      assert(lefts(h, clock, 46 to 52).flatMap(_.id).max == 35)
      val after = h.right(engaged(100, 200)).flatten
      assert(after.forall(_.mark.isEmpty) && after.flatMap(_.id).max == 40)
      assert(h.all.filter(_.id.contains(38)) == Seq(row(38, None, 138, 145)))
      assert(h.all.flatMap(_.id).distinct.size == h.all.size)
      assert(h.total(LabelMetrics.EmittedIncomplete) == h.all.count(_.mark == excluded))
    }
  }

  test("a row has no mark if the side was read to the end of its window, though it comes out later") {
    withConf("spark.sql.shuffle.partitions" -> 1) {
      query(excluding.copy(releaseEvery = Some("30 seconds"))) { (h, clock, _) =>
        h.step(Seq(served(101, 1)), Seq(engaged(101, 101)))
        // Their windows close within the step of 90 seconds: the first one's at the watermark of the right side.
        val waiting = Seq(Served("k", micros(102000000), 2), Served("k", micros(102000001), 3))
        h.step(waiting :+ served(113, 4), Seq(engaged(112, 102)))
        assert(h.all.isEmpty)
        lefts(h, clock, 140 to 160): Unit
        val marks = h.all.flatMap(row => row.id.map(_ -> row.mark)).toMap
        assert(Seq(1, 2, 3, 4).map(marks) == Seq(None, None, excluded, excluded))
      }
    }
  }

  test("late labels amend the rows that came out without them") {
    query(excluding.copy(amendFor = Some("1 hour"))) { (h, clock, _) =>
      h.step(Seq(served(1, 1)), Seq(engaged(2, 102)))
      val out = lefts(h, clock, 20 to 40)
      assert(out.contains(row(22, excluded)))
      val amended = h.right(engaged(23, 123), engaged(50, 150)).flatten
      assert(amended.filter(_.mark.contains("amended")).flatMap(_.labels).toSet == Set(123))
      assert(
        amended.filter(_.mark.contains("amended")).size == 4,
        "the rows of 1, of 13 seconds and more, aren't"
      )
    }
  }

  test("a restart, and a batch that runs again, know that the side is excluded") {
    query() { (h, clock, d) =>
      h.step(Seq(served(1, 1)), Seq(engaged(2, 102)))
      lefts(h, clock, 20 to 40)
      h.restart()
      assert(lefts(h, clock, 41 to 43).map(_.mark).toSet == Set(excluded), "without 80 more seconds")
      h.stop()
      val last = h.batchCount - 1
      Files.delete(Checkpoint.newestFirst(new File(d, "commits")).head.toPath)
      h.preload(Nil, Seq(engaged(90, 190)))
      h.start()
      h.settle()
      assert(h.changed.isEmpty && h.byBatch(last).forall(_.mark == excluded))
      assert(lefts(h, clock, 100 to 100).forall(_.mark.isEmpty))
    }
  }

  test("rows whose windows have closed without the side are marked, whatever their step") {
    query(excluding.copy(releaseEvery = Some("20 seconds"))) { (h, clock, _) =>
      h.step(Seq(served(1, 1)), Seq(engaged(2, 102)))
      lefts(h, clock, 20 to 38)
      // Too late for 20 and 22, whose windows have closed, and then the side catches up.
      h.right(engaged(21, 121), engaged(23, 123), engaged(37, 137))
      h.step(Seq(served(100, 100)), Seq(engaged(100, 200)))
      h.step(Seq(served(200, 200)), Seq(engaged(200, 300)))
      val rows = h.all.filter(_.id.exists(_ < 100))
      assert(rows.flatMap(_.id) == 1 +: (20 to 38))
      val whole = rows.filter(_.mark.isEmpty)
      assert(whole.nonEmpty && rows.size > whole.size)
      whole.foreach { row =>
        val all = Seq(21, 23, 37).filter(t => t >= row.id.get && t <= row.id.get + 10).map(100 + _)
        assert(row.labels == all, row)
      }
    }
  }

  Seq(0, 1, 2).foreach { behind =>
    test(s"a start $behind micro-batches behind the first one without the side marks its rows") {
      query() { (h, clock, d) =>
        h.step(Seq(served(1, 1)), Seq(engaged(2, 102)))
        lefts(h, clock, 20 to 27)
        h.stop()
        val first = noted(d).min
        rollBack(d, first + behind)
        h.start()
        // As long again: a start may have forgotten that the side had stalled.
        lefts(h, clock, 28 to 45)
        val out = h.all
        assert(out.flatMap(_.id).take(3) == Seq(1, 20, 21))
        assert(out.map(_.mark).toSet == Set(excluded), out)
      }
    }
  }

  /** The micro-batches whose entries have an excluded stream. */
  private def noted(checkpoint: File): Seq[Long] = {
    val note = "\"tailrace\\.excluded\\.[^\"]*\":\"([0-9]+) [^\"]".r
    Checkpoint.newestFirst(new File(checkpoint, "offsets")).flatMap { file =>
      note
        .findFirstMatchIn(Files.readString(file.toPath))
        .map(_.group(1).toLong)
        .filter(_ == file.getName.toLong)
    }
  }

  private def rollBack(checkpoint: File, from: Long): Unit =
    Seq("offsets", "commits")
      .flatMap(log => Checkpoint.newestFirst(new File(checkpoint, log)))
      .filter(_.getName.toLong >= from)
      .foreach(file => Files.delete(file.toPath))

  test("a left side that stalls holds nothing back either") {
    query(excluding.copy(onStall = "pause", onLeftStall = Some("exclude"))) { (h, clock, _) =>
      h.step(Seq(served(1, 1)), Seq(engaged(2, 102)))
      val out = (20 to 40).flatMap { t =>
        clock.advance(limit / 8)
        h.right(engaged(t.toDouble, t)).flatten
      }
      assert(out == Seq(row(1, None, 102)))
    }
  }

  test("fail ends the query and names the side; without a time nobody watches") {
    query(excluding.copy(onStall = "fail")) { (h, clock, _) =>
      h.step(Seq(served(1, 1)), Seq(engaged(2, 102)))
      (20 to 26).foreach(t => lefts(h, clock, t to t))
      clock.advance(limit / 8)
      h.add(Seq(served(27, 27)), Nil)
      val (condition, parameters) = failureOf(h.streaming)
      assert(condition == "TAILRACE_JOIN_STALLED" && parameters("stream") == "side right")
      assert(parameters("silent") == "1 min 20 s" && parameters("watermark").contains("12:00:02"))
    }
    val plain = options("10 seconds")
    assert(plain.stalls.isEmpty)
    val wrong = intercept[TailraceAnalysisException](plain.copy(onStall = "fail").stalls)
    assert(wrong.getCondition == "TAILRACE_OPTION_NEEDS")
  }

  test("eager matching has no marks: a join that may exclude a side is lazy") {
    withConf(TailraceConf.JoinStrategy.key -> "eager") {
      query() { (h, clock, _) =>
        h.step(Seq(served(1, 1)), Seq(engaged(2, 102)))
        assert(lefts(h, clock, 20 to 29).map(_.mark).toSet == Set(excluded))
      }
    }
  }

  test("a batch job has the column, too") {
    def frame(left: Seq[Served], right: Seq[Engaged]): DataFrame = {
      import spark.implicits._
      join(excluding)(left.toDF(), right.toDF())
    }
    val rows = frame(Seq(served(1, 1)), Seq(engaged(2, 102))).collect().map(Emitted.of)
    assert(rows.toSeq == Seq(row(1, None, 102)))
    assert(frame(Nil, Nil).columns.contains("_mark"))
  }

  test("options that emit rows otherwise are refused") {
    Seq(
      excluding.copy(horizons = Seq("5 seconds")) -> "horizons",
      excluding.copy(early = Some("5 seconds")) -> "early",
      excluding.copy(release = "decided", `match` = "first") -> "release",
      excluding.copy(lateLabels = Some(false)) -> "on_stall"
    ).foreach { case (of, other) =>
      val e = intercept[TailraceAnalysisException](of.stalls)
      assert(e.getCondition == "TAILRACE_OPTION_CONFLICT" && e.getMessageParameters.get("other") == other)
    }
    checkRefused("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> "on_stall", "value" -> "exclude") {
      excluding.copy(how = "inner", releaseEvery = None).stalls
    }
    withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> false) {
      checkRefused("TAILRACE_JOIN_CLOSES_IN_NO_BATCH", "option" -> "on_stall='exclude'")(
        query()((_, _, _) => ())
      )
    }
  }

  test("a note has all streams and their times, whatever their names") {
    val exclude = OnStall(Policy.Exclude, 1)
    def stream(labels: String*) = LabelStream(labels, Set.empty, exclude, after = Some(10))
    val text = ExcludedStreams.encode(Seq(stream("a&b", "c=d é") -> Some(7L), stream("never") -> None))
    val note = ExcludedStreams.decode(text)
    assert(note.readTo == Map("a&b" -> Some(7L), "c=d é" -> Some(7L), "never" -> None))
    assert(note.of(stream("c=d é", "added")).contains(Some(7L)) && note.of(stream("added")).isEmpty)
    assert(note.incompleteAfter(Seq(stream("a&b"))).contains(6990L))
    assert(note.incompleteAfter(Seq(stream("a&b"), stream("never"))).contains(Long.MinValue))
    // Labels that have one stream now, and had one each.
    assert(ExcludedStreams(Map("a" -> Some(7L), "b" -> Some(5L))).of(stream("a", "b")).contains(Some(5L)))
    assert(ExcludedStreams(Map("a" -> Some(7L), "b" -> None)).of(stream("a", "b")).contains(None))
    assert(ExcludedStreams.decode("") == ExcludedStreams.None)
  }
}
