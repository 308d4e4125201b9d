package io.tailrace.label

import org.apache.spark.sql.types._

import io.tailrace.api.Tailrace
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Engaged, Served, SparkSuite, StreamHarness, Version}

/** Versions of a left row: what comes out when, and what is refused. */
class HorizonsSuite extends SparkSuite {
  private def served(t: Double, id: Int) = Served("k", seconds(t), id)
  private def engaged(t: Double, id: Int) = Engaged("k", seconds(t), id)
  private val minute = options("60 seconds").copy(releaseEvery = Some("batch"))

  private def query(o: JoinOptions)(body: StreamHarness => Unit): Unit =
    withDirectory(d => body(new StreamHarness(spark, d)(join(o)).start()))

  /** The watermark goes to a second; rows of the left row come out. */
  private def to(h: StreamHarness, second: Double, labels: Engaged*): Seq[Version] =
    h.rows(Seq(Served("-", seconds(second), 0)), Engaged("-", seconds(second), 0) +: labels)
      .flatten
      .map(Version.of)
      .filter(_.id == 1)

  private def version(horizon: String, isChanged: Option[Boolean], labels: Int*) =
    Version(1, Some(horizon), labels, None, horizon == "1 minute", isChanged, None)

  test("early gives a provisional row, and the final one says whether it has changed") {
    query(minute.copy(early = Some("10 seconds"))) { h =>
      h.step(Seq(served(100, 1)), Seq(engaged(105, 10)))
      assert(to(h, 109, engaged(111, 11)) == Nil)
      assert(to(h, 110) == Seq(version("10 seconds", None, 10)))
      assert(to(h, 159) == Nil)
      assert(to(h, 160) == Seq(version("1 minute", Some(true), 10, 11)))
      assert(h.total(LabelMetrics.VersionsEmitted) >= 1)
    }
  }

  test("a label that comes after an early version changes the next one, whatever its time") {
    query(minute.copy(horizons = Seq("10 seconds", "30 seconds"))) { h =>
      h.step(Seq(served(100, 1)), Seq(engaged(105, 10)))
      assert(to(h, 110) == Seq(version("10 seconds", None, 10)))
      assert(to(h, 120, engaged(103, 12)) == Nil)
      assert(to(h, 130) == Seq(version("30 seconds", Some(true), 12, 10)))
      assert(to(h, 200) == Seq(version("1 minute", Some(false), 12, 10)))
    }
  }

  test("a left row that reaches several horizons at once gives their versions in order") {
    query(minute.copy(horizons = Seq("10 seconds", "30 seconds"))) { h =>
      h.step(Seq(served(100, 1)), Seq(engaged(105, 10), engaged(120, 11)))
      val all = Seq(
        version("10 seconds", None, 10),
        version("30 seconds", Some(true), 10, 11),
        version("1 minute", Some(false), 10, 11)
      )
      assert(to(h, 500) == all)
    }
  }

  test("the columns of a version stand behind the group; another `after` or other horizons are refused") {
    val o = minute.copy(horizons = Seq("10 seconds"), maxMatches = Some(2), onLate = "mark")
    withDirectory { directory =>
      val h = new StreamHarness(spark, directory)(join(o)).start()
      to(h, 100)
      val added = Seq("labels", "labels_truncated", "horizon", "final", "changed", "_mark")
      assert(join(o)(h.inputs._1, h.inputs._2).columns.takeRight(6).toSeq == added)
      assert(join(o)(h.inputs._1, h.inputs._2).schema("horizon") == StructField("horizon", StringType))
      Seq(o.copy(horizons = Seq("11 seconds")), o.copy(after = "61 seconds"), o.copy(horizons = Nil))
        .foreach { other =>
          h.stop()
          h.start(join(other))
          h.add(Seq(served(200, 5)), Nil)
          val e = intercept[Exception](h.streaming.processAllAvailable())
          assert(e.getMessage.contains("TAILRACE_CHECKPOINT_INCOMPATIBLE"))
        }
    }
  }

  test("what doesn't go together is refused by name") {
    import spark.implicits._
    val (left, right) = (Seq.empty[Served].toDF(), Seq.empty[Engaged].toDF())
    def refused(o: JoinOptions, argument: String, condition: String = "TAILRACE_OPTION_INVALID"): Unit = {
      val e = intercept[io.tailrace.common.TailraceAnalysisException] {
        Tailrace.join(left, right, Seq("k" -> "k"), o)
      }
      assert(e.getCondition == condition && e.getMessage.contains(argument))
    }
    refused(minute.copy(horizons = Seq("10 seconds", "10 seconds")), "horizons")
    refused(minute.copy(horizons = Seq("61 seconds")), "horizons")
    refused(minute.copy(early = Some("2 minutes")), "early")
    val early = minute.copy(early = Some("1 second"))
    refused(early.copy(horizons = Seq("2 seconds")), "`early`", "TAILRACE_OPTION_CONFLICT")
    refused(early.copy(emit = "changes"), "`emit`", "TAILRACE_OPTION_CONFLICT")
    refused(minute.copy(emit = "changes"), "emit", "TAILRACE_OPTION_NEEDS")
    refused(minute.copy(horizons = Seq("1 second"), emit = "some"), "emit")
    refused(minute.copy(horizons = Seq("1 second"), into = "final"), "into")
    val inner = minute.copy(how = "inner", releaseEvery = None, horizons = Seq("1 second"))
    refused(inner, "horizons", "TAILRACE_JOIN_OPTION_CONFLICT")
  }
}
