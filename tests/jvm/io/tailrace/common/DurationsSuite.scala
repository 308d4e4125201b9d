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
    ).foreach { case (text, micros) => assert(Durations.parse("after", text) == micros, text) }
  }

  test("what isn't a duration, has no fixed length or is too long") {
    Seq("", "soon", "5", "5 parsecs", "1 month", "2 years", "300000000000 days", null).foreach { text =>
      checkRefused("TAILRACE_JOIN_DURATION_INVALID", "argument" -> "after", "value" -> text) {
        Durations.parse("after", text)
      }
    }
  }

  test("negative durations") {
    Seq("-1 seconds", "-1 day 1 hour").foreach { text =>
      checkRefused("TAILRACE_JOIN_DURATION_NEGATIVE", "argument" -> "before", "value" -> text) {
        Durations.parse("before", text)
      }
    }
  }
}
