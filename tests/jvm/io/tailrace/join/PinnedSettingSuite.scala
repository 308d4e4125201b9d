package io.tailrace.join

import org.scalatest.funsuite.AnyFunSuite

/** Whether a query may resume a checkpoint, setting by setting. */
final class PinnedSettingSuite extends AnyFunSuite {
  private def micros(n: Long) = PinnedSetting.text(n)

  private def resumed(settings: PinnedSetting*)(written: (String, String)*): ResumedSettings =
    PinnedSettings(settings, mayLack = Seq("label: ")).resume(written.toMap)

  private def refused(of: ResumedSettings): Seq[String] = of.refused(areColumnsKnown = true)

  test("a fixed setting stays as it is") {
    val how = PinnedSetting.fixed("how", "left")
    assert(refused(resumed(how)("how" -> "left")).isEmpty)
    assert(refused(resumed(how)("how" -> "inner")) == Seq("`how` was 'inner' and is now 'left'"))
    assert(refused(resumed(how)()) == Seq("`how` was not given and is now 'left'"))
  }

  test("an optional setting is compared with its absence") {
    val none = PinnedSetting.optional("release", None).copy(words = SettingWords.Argument(Some("closed")))
    assert(refused(resumed(none)()).isEmpty)
    assert(
      refused(resumed(none)("release" -> "decided")) == Seq("`release` was 'decided' and is now 'closed'")
    )
  }

  test("horizons are named as the query gives them, and those of a checkpoint as it may have given them") {
    def told(words: SettingWords, now: Long*)(was: Long*): Seq[String] = {
      def text(ends: Seq[Long]) =
        Option.when(ends.nonEmpty)((ends :+ 60L).map(end => micros(end * 1000000)).mkString(", "))
      val setting = PinnedSetting.optional("horizons", text(now)).copy(words = words)
      refused(resumed(setting)(text(was).map("horizons" -> _).toSeq: _*))
    }
    val early = SettingWords.Horizons(Some("early"), Some("early"))
    val several = SettingWords.Horizons(Some("horizons"), Some("early"))
    val neither = SettingWords.Horizons(None, Some("early"))
    val examples = SettingWords.Horizons(Some("horizons"), None)
    assert(told(early, 5)() == Seq("`early` was not given and is now '5 seconds'"))
    assert(told(early, 9)(5) == Seq("`early` was '5 seconds' and is now '9 seconds'"))
    assert(
      told(early, 9)(5, 7) == Seq("`horizons` was '5 seconds, 7 seconds' and `early` is now '9 seconds'")
    )
    assert(told(several, 5)() == Seq("`horizons` was not given and is now '5 seconds'"))
    assert(told(neither)(5) == Seq("`early` or `horizons` was '5 seconds' and is not given now"))
    assert(told(neither)(5, 7) == Seq("`horizons` was '5 seconds, 7 seconds' and is not given now"))
    assert(told(examples)(5) == Seq("`horizons` was '5 seconds' and is not given now"))
    assert(
      told(several, 5)(5, 7) == Seq(
        "`horizons` was '5 seconds, 7 seconds' and is now '5 seconds': of several, emit='defer' has only the first"
      )
    )
  }

  test("a duration changes in the directions that it may") {
    val changes = Seq[(SettingChange, Boolean, Boolean)](
      (SettingChange.Never, false, false),
      (SettingChange.Longer, true, false),
      (SettingChange.Shorter, false, true),
      (SettingChange.LongerOrShorter, true, true)
    )
    changes.foreach { case (change, longer, shorter) =>
      Seq(5L -> longer, 15L -> shorter).foreach { case (was, allowed) =>
        val now = resumed(PinnedSetting.duration("after", 10).copy(change = change))("after" -> micros(was))
        assert(refused(now).isEmpty == allowed, s"$change from $was")
        assert(now.durations == (if (allowed) Set("after") else Set.empty))
        assert(now.bound == Map("after" -> micros(10)))
      }
    }
  }

  test("a setting that the user leaves to Tailrace is that of the checkpoint, or the one that it implies") {
    val steps = PinnedSetting("steps", PinnedValue.Inherited("64"), MissingSetting.Implied("batch"))
    assert(PinnedSettings(Seq(steps)).initial == Map("steps" -> "64"))
    assert(resumed(steps)("steps" -> "7").bound == Map("steps" -> "7"))
    assert(resumed(steps)().bound == Map("steps" -> "batch"))
    val named = steps.copy(value = PinnedValue.Fixed("64"))
    assert(refused(resumed(named)()) == Seq("`steps` was 'batch' and is now '64'"))
  }

  test(
    "a setting of which an older checkpoint implies nothing is pinned from the next start on, unless refused"
  ) {
    val free = PinnedSetting("part", PinnedValue.Fixed("a"), MissingSetting.Unknown())
    assert(refused(resumed(free)()).isEmpty && resumed(free)().bound == Map("part" -> "a"))
    assert(refused(resumed(free)("part" -> "b")) == Seq("`part` was 'b' and is now 'a'"))
    val strict = free.copy(missing = MissingSetting.Unknown(of => of.get("how").map("not with " + _)))
    assert(
      refused(resumed(strict, PinnedSetting.fixed("how", "left"))("how" -> "left")) == Seq("not with left")
    )
  }

  test("a setting that follows another one is mentioned only if it has changed alone") {
    val how = PinnedSetting.fixed("how", "left")
    val steps = PinnedSetting.fixed("steps", "1").copy(follows = Some("how"))
    assert(refused(resumed(how, steps)("how" -> "inner", "steps" -> "2")).size == 1)
    assert(
      refused(resumed(how, steps)("how" -> "left", "steps" -> "2")) == Seq("`steps` was '2' and is now '1'")
    )
  }

  test("a setting that the query may lack stays in the checkpoint; an unknown one is refused") {
    val how = PinnedSetting.fixed("how", "left")
    val without = resumed(how)("how" -> "left", "label: buy" -> "last")
    assert(refused(without).isEmpty && without.bound == Map("how" -> "left", "label: buy" -> "last"))
    assert(refused(resumed(how)("how" -> "left", "new" -> "1")) == Seq("`new` was '1' and is not given now"))
  }

  test("texts of columns may differ only if the columns themselves are known") {
    val columns = PinnedSetting.fixed("left columns", "a INT").copy(change = SettingChange.OfColumns)
    val other = resumed(columns)("left columns" -> "a BIGINT")
    assert(other.refused(areColumnsKnown = true).isEmpty)
    assert(other.refused(areColumnsKnown = false).size == 1)
  }
}
