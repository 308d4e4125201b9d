package io.tailrace.examples

import org.apache.spark.sql.DataFrame

import io.tailrace.api.Tailrace
import io.tailrace.common.{TailraceAnalysisException, TimeSpan}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Engaged, Served, SparkSuite}

/** Which samples at a ratio Scala's call accepts. That of Python refuses some of the others before it calls it. */
final class SampleRatioSuite extends SparkSuite {
  import spark.implicits._

  private def examples(sample: ExampleSample): DataFrame = {
    val impressions = Seq(Served("k", seconds(1), 1)).toDF()
    val clicks = Seq(Engaged("k", seconds(2), 2)).toDF()
    Tailrace.examples(impressions, ExampleOptions("t", sample = Some(sample)))(
      clicks -> ExampleLabel("click", time = "rt", on = Seq("k" -> "k"), after = "10 seconds")
    )
  }

  private val three = ExampleSample(Nil, seed = 7, ratio = Seq("click" -> 3.0))

  private def refused(sample: ExampleSample): String = {
    val e = intercept[TailraceAnalysisException](examples(sample))
    s"${e.getCondition} ${e.getMessageParameters.get("argument")}"
  }

  test("a first rate is above 0, so that each example may be kept, and at most 1") {
    Seq(0.0, -0.5, 1.000001, Double.NaN).foreach { start =>
      assert(refused(three.copy(start = Some(start))) == "TAILRACE_OPTION_INVALID start")
    }
    Seq(1e-9, 1.0).foreach(start => assert(examples(three.copy(start = Some(start))).count() == 1))
  }

  test("a window is a second at least") {
    val short = three.copy(over = Some(TimeSpan("999999 microseconds")))
    assert(refused(short) == "TAILRACE_OPTION_INVALID over")
    assert(examples(three.copy(over = Some(TimeSpan("1 second")))).count() == 1)
  }

  test("a ratio is a number above 0") {
    Seq(0.0, -1.0, Double.NaN, Double.PositiveInfinity).foreach { ratio =>
      assert(refused(three.copy(ratio = Seq("click" -> ratio))).startsWith("TAILRACE_OPTION_INVALID"))
    }
  }
}
