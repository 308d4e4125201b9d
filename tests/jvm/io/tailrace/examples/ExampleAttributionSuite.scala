package io.tailrace.examples

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{Arguments, CallDocument, TailraceAnalysisException, TimeSpan}

/** Attributions as Python writes them, and their texts, which checkpoints have. */
final class ExampleAttributionSuite extends AnyFunSuite {
  private val arguments = new Arguments("tailrace.examples, label 'buy'")

  private def read(json: String): ExampleAttribution =
    CallDocument.read("tailrace.examples", json, Nil, Nil)(ExampleAttribution.of)

  test("the text is the one that checkpoints of earlier releases have") {
    Seq(
      """{"kind": "linear"}""" -> "linear",
      """{"kind": "time_decay", "half_life": "60 minutes"}""" -> "time_decay 60 minutes",
      """{"kind": "time_decay", "half_life": 3600000000}""" -> "time_decay 3600000000 microseconds",
      """{"kind": "position", "weights": [0.4, 0.2, 0.4]}""" -> "position 0.4 0.2 0.4",
      """{"kind": "position", "weights": [1.0, 0.0, 0.0]}""" -> "position 1.0 0.0 0.0",
      // As Python's repr.
      """{"kind": "position", "weights": [0.0001, 0.9998, 0.0001]}""" -> "position 0.0001 0.9998 0.0001",
      """{"kind": "position", "weights": [5e-05, 0.9999, 5e-05]}""" -> "position 5e-05 0.9999 5e-05",
      """{"kind": "position", "weights": [1.25e-10, 1.0, 0.3333333333333333]}""" ->
        "position 1.25e-10 1.0 0.3333333333333333"
    ).foreach { case (json, text) => assert(read(json).stored == text) }
  }

  test("the attribution that a text stands for") {
    def settings(of: ExampleAttribution) = of.settings(arguments)
    assert(settings(ExampleAttribution("last_touch")) == Attribution.LastTouch)
    assert(settings(ExampleAttribution("first_touch")) == Attribution.FirstTouch)
    assert(settings(ExampleAttribution("linear")) == Attribution.Linear)
    val decay = ExampleAttribution("time_decay", halfLife = Some("1 hour"))
    assert(settings(decay) == Attribution.TimeDecay(3600L * 1000 * 1000))
    val position = ExampleAttribution("position", weights = Seq(0.7, 0.2, 0.1))
    assert(settings(position) == Attribution.Position(0.7, 0.2, 0.1))
  }

  test("what is refused, and in which words") {
    def refused(of: ExampleAttribution): (String, String) = {
      val e = intercept[TailraceAnalysisException](of.settings(arguments))
      assert(e.getMessageParameters.get("argument") == "attribution")
      e.getMessageParameters.get("value") -> e.getMessageParameters.get("allowed")
    }
    assert(
      refused(ExampleAttribution("time_decay", halfLife = Some(TimeSpan.ofMicros(0)))) ==
        ("time_decay 0 seconds", "time_decay of a duration above zero, such as 1 hour")
    )
    assert(
      refused(ExampleAttribution("position", weights = Seq(0.5, 0.4))) ==
        ("position 0.5 0.4", "position of three weights of 0 or more that sum to 1")
    )
    assert(
      refused(ExampleAttribution("middle")) ==
        ("middle", "last_touch, first_touch, linear, time_decay or position")
    )
  }
}
