package io.tailrace.recursion

import org.scalatest.funsuite.AnyFunSuite

final class HeldWatermarkSuite extends AnyFunSuite {
  private def after(inputs: Option[Long]*)(inFlight: Option[Long]) = HeldWatermark.after(inputs, inFlight)

  test("nothing in flight: as far as the input that is furthest behind") {
    assert(after(Some(5000), Some(3000))(None).contains(3000))
  }

  test("rows in flight hold it so that the oldest of them is not late: late is at the watermark or before") {
    assert(after(Some(5000))(Some(2000000)).contains(1999))
    assert(after(Some(5000))(Some(2000001)).contains(2000))
    assert(after(Some(5000))(Some(9000000)).contains(5000))
  }

  test("no watermark until each input has one, nor before 1970, where Spark has none") {
    assert(after(Some(5000), None)(None).isEmpty)
    assert(after()(Some(2000000)).isEmpty)
    assert(after(Some(5000))(Some(-1)).isEmpty)
  }
}
