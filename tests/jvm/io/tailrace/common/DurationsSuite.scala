package io.tailrace.common

import io.tailrace.testkit.SparkSuite

class DurationsSuite extends SparkSuite {
  test("durations as Spark reads them, in microseconds") {
    Seq(
      "0 seconds" -> 0L,
      "1 microsecond" -> 1L,
      "30 minutes" -> 1800L * 1000 * 1000,
      "1 hour 500 milliseconds" -> 3600500L * 1000,
      "interval 2 days" -> 2L * 86400 * 1000 * 1000,
      "1 week -1 day" -> 6L * 86400 * 1000 * 1000
    ).foreach { case (text, micros) => assert(Durations.read(text).contains(micros), text) }
  }

  test("a text that isn't a duration, has no fixed length or is too long is refused") {
    Seq("", "soon", "5", "5 parsecs", "1 month", "2 years", "300000000000 days", null).foreach(refused(_))
  }

  test("a duration below the least one is refused") {
    Seq("-1 seconds", "-1 day 1 hour").foreach(refused(_))
    refused("999 microseconds", least = 1000, "of 1 ms or more")
    assert(arguments.millis("after", "1 millisecond") == 1)
  }

  test("a refused timedelta is shown in units, as Spark reads it") {
    Seq(
      -10000000L -> "-10 seconds",
      -5400000000L -> "-1 hour -30 minutes",
      -1L -> "-1 microsecond",
      0L -> "0 seconds",
      90000000L -> "1 minute 30 seconds"
    ).foreach { case (micros, text) =>
      val e = intercept[TailraceAnalysisException](
        arguments.duration("after", TimeSpan.ofMicros(micros), least = Long.MaxValue)
      )
      assert(e.getMessageParameters.get("value") == text)
      assert(Durations.read(text).contains(micros))
    }
  }

  private val arguments = new Arguments("tailrace.join")

  private def refused(text: String, least: Long = 0, bound: String = "of zero or more"): Unit =
    checkRefused(
      "TAILRACE_OPTION_INVALID",
      "call" -> "tailrace.join",
      "argument" -> "after",
      "value" -> String.valueOf(text),
      "allowed" -> s"a duration $bound, such as 30 minutes; months and years have no fixed length"
    )(arguments.duration("after", text, least))
}
