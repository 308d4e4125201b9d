package io.tailrace.examples

import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.join.MissingSetting
import io.tailrace.label.{JoinWindow, MatchPolicy}

/** What a query can't go on with that its checkpoint doesn't know. */
final class LabelWordsSuite extends AnyFunSuite {
  private val rule = LabelRule(
    "buy",
    LabelUnion.FirstLabel,
    new StructType().add("id", "long"),
    JoinWindow(0, 1000000),
    MatchPolicy.All,
    None,
    Nil,
    Some(Attribution.Linear),
    Some(20L),
    Set.empty
  )
  private val known = Map("examples: buy" -> "no further keys, attribution linear")

  private def refusal(rule: LabelRule, setting: String, written: Map[String, String]): Option[String] = {
    val form = LabelColumns(Seq(rule.copy(name = "click", attribution = None, since = None), rule))
    form
      .pinned(Nil, Map(setting -> "as it is now"))
      .map(_.missing)
      .collectFirst { case MissingSetting.Unknown(refusal) =>
        refusal(written)
      }
      .flatten
  }

  test("impressions before `since` had a share in a checkpoint of an earlier release") {
    assert(refusal(rule, "credits: buy", known).exists(_.contains("`since`")))
    // All impressions had a share, and have.
    assert(refusal(rule.copy(since = None), "credits: buy", known).isEmpty)
    // The label is new.
    assert(refusal(rule, "credits: buy", Map("examples: click" -> "no further keys, not attributed")).isEmpty)
    assert(refusal(rule, "examples: buy", Map.empty).isEmpty)
    // It had no attribution, which is refused for that.
    assert(refusal(rule, "credits: buy", Map("examples: buy" -> "no further keys, not attributed")).isEmpty)
  }

  test("a label that comes later needs `since`") {
    assert(refusal(rule.copy(since = None), "examples: buy", Map.empty).exists(_.contains("`since`")))
    assert(refusal(rule, "examples: click", Map.empty).exists(_.contains("`since`")))
  }

  test("a label with an attribution doesn't come back") {
    val words = new LabelWords(Seq(rule))
    val without = new StructType().add("click", "string")
    assert(words.returned(known, without, areNamed = true).exists(_.contains("left out")))
    assert(words.returned(known, without.add("buy", "string"), areNamed = true).isEmpty)
    assert(words.returned(Map.empty, without, areNamed = true).isEmpty)
  }
}
