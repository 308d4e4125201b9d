package io.tailrace.common

import org.scalatest.funsuite.AnyFunSuite

/** Arguments as Python writes them. */
final class CallDocumentSuite extends AnyFunSuite {

  private def read[T](json: String)(decoded: CallDocument => T): T =
    CallDocument.read("tailrace.join", json, Nil, Nil)(decoded)

  private def refused(condition: String)(of: => Any): Map[String, String] = {
    val e = intercept[TailraceAnalysisException](of)
    assert(e.getCondition == condition)
    import scala.jdk.CollectionConverters._
    e.getMessageParameters.asScala.toMap
  }

  private def invalid(value: String)(field: CallDocument#Field => Any): (String, String) = {
    val named = refused("TAILRACE_OPTION_INVALID")(read(s"""{"of": $value}""")(of => field(of("of"))))
    assert(named("call") == "tailrace.join" && named("argument") == "of")
    named("value") -> named("allowed")
  }

  private def unknown(json: String)(decoded: CallDocument => Any): String =
    refused("TAILRACE_CONNECT_CALL_UNKNOWN")(read(json)(decoded))("call")

  test("each type of a field") {
    val json =
      """{"t": "a", "f": true, "i": 7, "d": 0.1, "w": ["1 hour", 5], "on": [["a", "b"]], "of": {"x": [1]}}"""
    read(json) { of =>
      assert(of("t").text == "a" && of("f").flag && of("i").int == 7 && of("d").double == 0.1)
      assert(of("w").list.map(_.duration.micros) == Seq(Some(3600000000L), Some(5L)))
      assert(of("on").pairs == Seq("a" -> "b"))
      assert(of("of").document.apply("x").list.map(_.long) == Seq(1L))
      assert(of.get("absent").isEmpty)
    }
  }

  test("a value of another type is refused as one that isn't allowed") {
    assert(invalid("1")(_.text) == ("1", "a string"))
    assert(invalid("\"true\"")(_.flag) == ("true", "true or false"))
    assert(invalid("\"many\"")(_.int) == ("many", s"a whole number of at most ${Int.MaxValue}"))
    assert(invalid("2147483648")(_.int) == ("2147483648", s"a whole number of at most ${Int.MaxValue}"))
    assert(
      invalid("9223372036854775808")(_.long) ==
        ("9223372036854775808", s"a whole number of at most ${Long.MaxValue}")
    )
    assert(invalid("[1]")(_.duration) == ("[1]", "a duration, such as 30 minutes"))
    assert(invalid("\"a\"")(_.texts) == ("a", "a list"))
    assert(invalid("""{"frame": 0}""")(_.frame) == ("""{"frame":0}""", "a frame"))
  }

  test("a number below the range of its type is read as one that its option refuses") {
    assert(read("""{"of": -9223372036854775809}""")(_.apply("of").long) == -Long.MaxValue)
    assert(read("""{"of": -3000000000}""")(_.apply("of").int) == -Int.MaxValue)
  }

  test("a timedelta longer than a Long has is no duration") {
    val span = read("""{"of": 86399999999999999999}""")(_.apply("of").duration)
    assert(span.micros.isEmpty)
    assert(span.toString == "999999999 days 23 hours 59 minutes 59 seconds 999 milliseconds 999 microseconds")
  }

  test("a call of another version: a field too many, one that is missing, none at all") {
    assert(unknown("""{"a": 1, "b": 2}""")(_.apply("a").int) == "tailrace.join with `b`")
    assert(unknown("""{"in": {"a": 1}}""")(_.apply("in").document) == "tailrace.join with `a`")
    assert(unknown("{}")(_.apply("a")) == "tailrace.join without `a`")
    Seq("", "[]", "{").foreach { json =>
      assert(unknown(json)(_ => ()) == "tailrace.join with arguments that are no JSON object")
    }
  }
}
