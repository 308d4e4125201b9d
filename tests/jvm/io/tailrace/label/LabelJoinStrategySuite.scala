package io.tailrace.label

import org.apache.spark.sql.tailrace.{MemoryStream, SparkPlans}

import io.tailrace.api.Tailrace
import io.tailrace.common.TimeSpan
import io.tailrace.join.StoredJoinExec
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Emitted, Engaged, Served, SlowSuite, SparkSuite, StreamHarness}

class LabelJoinStrategySuite extends SparkSuite with SlowSuite {
  import spark.implicits._

  test("a stream is planned as the stateful operator, and explain shows its settings") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(
        join(options("10 seconds").copy(before = "1 second", `match` = "nearest"))
      )
      h.start().step(Seq(Served("k", seconds(1), 1)), Seq(Engaged("k", seconds(1), 1)))
      val out = new java.io.ByteArrayOutputStream
      Console.withOut(out)(h.streaming.explain())
      val line = out.toString.linesIterator.find(_.contains("TailraceLabelJoin")).get
      Seq("how=left, before=1 s, after=10 s, match=nearest, on_late=drop", "strategy=lazy (at expiry)")
        .foreach { part =>
          assert(line.contains(part))
        }
    }
  }

  test("a join of batch DataFrames is planned without state") {
    val asked = options("1 second").copy(maxMatches = Some(3), onLate = "mark")
    val frame =
      Tailrace.join(Seq.empty[Served].toDF(), Seq.empty[Engaged].toDF(), Seq("k" -> "k"), asked)
    val plan = frame.asInstanceOf[org.apache.spark.sql.classic.Dataset[_]].queryExecution.sparkPlan
    assert(plan.collect { case e: LabelJoinBatchExec => e }.size == 1)
    assert(plan.collect { case e: StoredJoinExec => e }.isEmpty)
    val line = plan.toString.linesIterator.find(_.contains("TailraceLabelJoinBatch")).get
    // Spark marks a node whose input columns are missing with an exclamation mark.
    assert(line.contains("after=1 s, match=all, max_matches=3, on_late=mark") && !line.contains("!"))
  }

  test("the optimizer prunes no column that only the group holds") {
    val frame = Tailrace
      .join(
        Seq(Served("k", seconds(1), 1)).toDF(),
        Seq(Engaged("k", seconds(2), 2)).toDF(),
        Seq("k" -> "k"),
        options("5 seconds")
      )
      .selectExpr("labels[0].rid")
    assert(frame.collect().map(_.getInt(0)).toSeq == Seq(2))
  }

  test(
    "a batch join gives its rows with several partitions, with an empty side, and in a union with itself"
  ) {
    val l = Seq(Served("k", seconds(1), 1)).toDF()
    val r = Seq(Engaged("k", seconds(2), 2)).toDF()
    def of(left: org.apache.spark.sql.DataFrame, right: org.apache.spark.sql.DataFrame) =
      Tailrace.join(left, right, Seq("k" -> "k"), options("5 seconds")).collect().map(Emitted.of).toSeq
    val matched = Emitted("k", Some(1), Seq(2))
    assert(of(l.repartition(5), r.repartition(3)) == Seq(matched))
    assert(of(l, r.limit(0)) == Seq(matched.copy(labels = Nil)))
    assert(of(l.limit(0), r) == Nil)
    val joined = Tailrace.join(l, r, Seq("k" -> "k"), options("5 seconds"))
    assert(joined.union(joined).collect().map(Emitted.of).toSeq == Seq(matched, matched))
  }

  test(
    "the watermark that is passed on stays behind all that may come out, rounded up, and never wraps round"
  ) {
    def passedOn(
        how: String,
        before: String,
        after: String,
        every: String = "batch",
        late: Boolean = true
    ): Long = {
      val steps = Option.when(how == "left")(every)
      val joined = join(
        options(after)
          .copy(how = how, before = before, releaseEvery = steps.map(TimeSpan(_)), lateLabels = Some(late))
      )(
        MemoryStream[Served](spark).toDF(),
        MemoryStream[Engaged](spark).toDF()
      )
      val node = SparkPlans.analyzed(joined).collectFirst { case j: LabelJoin => j }.get
      val window = node.settings.window
      val wait =
        if (how == "inner") window.longestWait(late)
        else window.longestWaitOfGroups(longest = 0, node.settings.release.get.every)
      JoinWindow.passedOn(100000, wait)
    }
    assert(passedOn("left", "60 seconds", "30 seconds") == 70000)
    assert(JoinWindow.passedOn(100000, JoinWindow(0, 1).longestWaitOfGroups(40000000L, every = 0)) == 60000)
    assert(passedOn("left", "0 seconds", "1 microsecond") == 99999)
    assert(passedOn("left", "0 seconds", "30 seconds", every = "5 seconds") == 65000)
    assert(passedOn("left", "0 seconds", "30 seconds", every = s"${Long.MaxValue} microseconds") == 0)
    assert(passedOn("inner", "60 seconds", "30 seconds") == 10000)
    assert(passedOn("inner", "60 seconds", "30 seconds", late = false) == 40000)
    assert(passedOn("inner", "0 seconds", "30 seconds") == 70000)
    assert(passedOn("left", "0 seconds", "200 seconds") == 0)
    assert(passedOn("left", "0 seconds", s"${Long.MaxValue} microseconds") == 0)
  }

  test("operators of one input with different settings are not equal") {
    val streams = (MemoryStream[Served](spark).toDF(), MemoryStream[Engaged](spark).toDF())
    val joined = join(options("10 seconds"))(streams._1, streams._2)
    val node = SparkPlans.analyzed(joined).collectFirst { case j: LabelJoin => j }.get
    val other = node.copy(settings = node.settings.copy(window = JoinWindow(0, 1)))
    def planned(join: LabelJoin) = LabelJoinStrategy(join).head
    assert(planned(node) == planned(node) && planned(node).hashCode == planned(node).hashCode)
    assert(planned(node) != planned(other))
  }

  test("the strategy plans no other node") {
    val plan = SparkPlans.analyzed(Seq(1).toDF())
    assert(LabelJoinStrategy(plan) == Nil)
  }
}
