package io.tailrace.label

import io.tailrace.testkit.SparkSuite

class JoinOptionsSuite extends SparkSuite {
  private val options = JoinOptions(leftTime = "t", rightTime = "rt", after = "10 seconds")

  private def checkInvalid(argument: String, value: String, allowed: String)(o: JoinOptions): Unit =
    checkRefused(
      "TAILRACE_OPTION_INVALID",
      "call" -> "tailrace.join",
      "argument" -> argument,
      "value" -> value,
      "allowed" -> allowed
    ) {
      o.settings
    }

  test("defaults: all matches, at expiry, no cap, late rows dropped") {
    assert(
      options.settings ==
        JoinSettings(
          JoinWindow(0, 10000000),
          JoinOutput.Grouped,
          OneGroup(MatchPolicy.All, None),
          marksLate = false
        )
    )
  }

  test("each option is read by its name") {
    val o = options.copy(
      before = "1 second",
      `match` = "nearest",
      maxMatches = Some(3),
      onLate = "mark",
      releaseEvery = Some("2 seconds")
    )
    assert(
      o.settings ==
        JoinSettings(
          JoinWindow(1000000, 10000000),
          JoinOutput.Grouped,
          OneGroup(MatchPolicy.Nearest, Some(3)),
          marksLate = true,
          release = Some(ReleaseSteps(2000000))
        )
    )
    assert(options.copy(how = "inner").settings.output == JoinOutput.Pairs)
    Seq("batch", "0 seconds").foreach { text =>
      assert(options.copy(releaseEvery = Some(text)).settings.release.contains(ReleaseSteps.EachBatch))
    }
  }

  test("how is read as Spark reads the type of a join") {
    Seq("left", "LEFT", "leftouter", "left_outer", "LeftOuter").foreach { how =>
      assert(options.copy(how = how).settings.output == JoinOutput.Grouped, how)
    }
    assert(options.copy(how = "Inner").settings.output == JoinOutput.Pairs)
  }

  test("an invalid value is refused with the list of valid ones") {
    checkInvalid("how", "outer", "'left' or 'leftouter' or 'left_outer' or 'inner'")(
      options.copy(how = "outer")
    )
    checkInvalid("match", "any", "'all' or 'first' or 'last' or 'nearest'")(options.copy(`match` = "any"))
    checkInvalid("on_late", "keep", "'drop' or 'mark'")(options.copy(onLate = "keep"))
    checkInvalid("max_matches", "0", "a whole number of 1 or more")(options.copy(maxMatches = Some(0)))
    checkInvalid("into", "", "the name of a column")(options.copy(into = ""))
    Seq("each batch", "-1 second", "1 month").foreach { text =>
      checkInvalid(
        "release_every",
        text,
        "'batch', or a duration of zero or more, such as 30 minutes; months and years have no fixed length"
      )(options.copy(releaseEvery = Some(text)))
    }
  }

  test("options of groups are refused for pairs") {
    val inner = options.copy(how = "inner")
    checkRefused("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> "match", "value" -> "first") {
      inner.copy(`match` = "first").settings
    }
    checkRefused("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> "max_matches", "value" -> "2") {
      inner.copy(maxMatches = Some(2)).settings
    }
    checkRefused("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> "into", "value" -> "found") {
      inner.copy(into = "found").settings
    }
    checkRefused("TAILRACE_JOIN_OPTION_CONFLICT", "argument" -> "release_every", "value" -> "batch") {
      inner.copy(releaseEvery = Some("batch")).settings
    }
  }
}
