package io.tailrace.common

import org.scalatest.funsuite.AnyFunSuite

final class SparkWatermarkSuite extends AnyFunSuite {
  test("a row at Spark's watermark is late, and the next one isn't: there and back") {
    assert(Seq(1L, 999L, 1767268800000L).forall(ms => SparkWatermark.after(ms) == ms * 1000 + 1))
    assert(Seq(1L, 999L, 1767268800000L).forall(ms => SparkWatermark.before(SparkWatermark.after(ms)) == ms))
    assert(Seq(1000L, 1001L, 2000L, -1L).map(SparkWatermark.before) == Seq(0L, 1L, 1L, -1L))
  }

  test("Spark's watermark 0 is no watermark") {
    assert(Seq(0L, -5L).forall(SparkWatermark.after(_) == SparkWatermark.Never))
  }
}
