package io.tailrace.watermark

import java.io.File

import scala.jdk.CollectionConverters._

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import com.fasterxml.jackson.databind.ObjectMapper

final class CompletenessSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private def allowed(text: String, hosts: Int): Int = Completeness.parse(text).get.allowed(hosts)

  test("the examples of the scaladoc hold") {
    assert(allowed("99.9%", 1000) == 1)
    assert(allowed("99.9%", 999) == 0)
    assert(allowed("100%", 1000000) == 0)
    assert(allowed("0.5", 2) == 1 && allowed("50 %", 3) == 1)
    // In binary fractions it would be 999: there, 1 - 0.999 is a little less than 0.001.
    assert(allowed("0.999", 1000000) == 1000)
  }

  test("the golden vectors, which the server has too, hold") {
    val vectors =
      new ObjectMapper().readTree(new File("tests/golden/completeness.json")).elements.asScala.toSeq
    assert(vectors.size > 10)
    vectors.foreach { v =>
      assert(allowed(v.get("completeness").asText, v.get("hosts").asInt) == v.get("allowed").asInt, v)
    }
  }

  test("percent and fraction are one number") {
    Seq("99.9%" -> "0.999", "100%" -> "1", "1.0" -> "1", "0.5%" -> "0.005", " 99.99 % " -> "0.9999").foreach {
      case (text, same) =>
        assert(Completeness.parse(text).get == Completeness.parse(same).get)
        assert(Completeness.parse(text).get.toString == same)
    }
  }

  test("a share that is not above 0 and at most 1 is refused") {
    Seq(
      "0",
      "0%",
      "0.0",
      "1.1",
      "100.1%",
      "-0.5",
      "50",
      "",
      "%",
      "1e-3",
      "0,9",
      ".9",
      "99.9%%",
      "0." + "9" * 19
    )
      .foreach(text => assert(Completeness.parse(text).isEmpty, text))
  }

  test("the number of hosts that may lag is exact") {
    forAll(Gen.choose(1, 1000000), Gen.choose(0, 2000000)) { (millionths, hosts) =>
      val text = BigDecimal(millionths, 6).bigDecimal.toPlainString
      val expected = BigInt(hosts) * (1000000 - millionths) / 1000000
      assert(BigInt(allowed(text, hosts)) == expected)
    }
  }

  test("composed shares are the product, never rounded up") {
    val once = Completeness.parse("0.999").get
    assert(once.andThen(once).toString == "0.998001")
    assert(once.andThen(Completeness.Whole) == once)
    val many = Iterator.iterate(once)(_.andThen(once)).drop(9).next()
    assert(many.ratio.scale <= Completeness.MostDigits)
    assert(many.ratio.compareTo(once.ratio.pow(10)) <= 0 && many.ratio.doubleValue > 0.99004)
  }
}
