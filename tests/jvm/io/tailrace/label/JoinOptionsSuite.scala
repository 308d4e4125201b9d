package io.tailrace.label

import io.tailrace.testkit.SparkSuite

class JoinOptionsSuite extends SparkSuite {
  private val options = JoinOptions(leftTime = "t", rightTime = "rt", after = "10 seconds")

  private def checkInvalid(argument: String, value: String, allowed: String)(o: JoinOptions): Unit =
    checkRefused(
      "TAILRACE_JOIN_OPTION_INVALID",
      "argument" -> argument,
      "value" -> value,
      "allowed" -> allowed
    ) {
      o.settings
    }

  test("defaults: all matches, at expiry, no cap, late rows dropped") {
    assert(
      options.settings ==
        JoinSettings(JoinWindow(0, 10000000), JoinOutput.Grouped, MatchPolicy.All, None, emitLate = false)
    )
  }

  test("every value by its name") {
    val o = options.copy(before = "1 second", matching = "nearest", maxMatches = Some(3), late = "emit")
    assert(
      o.settings ==
        JoinSettings(
          JoinWindow(1000000, 10000000),
          JoinOutput.Grouped,
          MatchPolicy.Nearest,
          Some(3),
          emitLate = true
        )
    )
    assert(options.copy(how = "inner").settings.output == JoinOutput.Pairs)
  }

  test("values that aren't allowed") {
    checkInvalid("how", "outer", "\"left\" or \"inner\"")(options.copy(how = "outer"))
    checkInvalid("match", "any", "\"all\" or \"first\" or \"last\" or \"nearest\"")(
      options.copy(matching = "any")
    )
    checkInvalid("late", "keep", "\"drop\" or \"emit\"")(options.copy(late = "keep"))
    checkInvalid("max_matches", "0", "one or more")(options.copy(maxMatches = Some(0)))
    checkInvalid("into", "", "a column name")(options.copy(into = ""))
  }

  test("the group can't be called what marks late rows, if they come out") {
    checkInvalid("into", "_late", "another name: this is the column that marks late rows")(
      options.copy(into = "_late", late = "emit")
    )
    assert(!options.copy(into = "_late").settings.emitLate)
  }

  test("what needs groups") {
    val inner = options.copy(how = "inner")
    checkRefused("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> "match", "value" -> "first") {
      inner.copy(matching = "first").settings
    }
    checkRefused("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> "max_matches", "value" -> "2") {
      inner.copy(maxMatches = Some(2)).settings
    }
    checkRefused("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> "into", "value" -> "found") {
      inner.copy(into = "found").settings
    }
  }
}
