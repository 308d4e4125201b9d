package io.tailrace.replay

import java.util.HexFormat

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.TailraceStateException

final class MarkFileSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private def table(disorder: Int, offsets: Seq[Long]): MarkTable = {
    val made = new MarkTable(disorder)
    offsets.zipWithIndex.foreach { case (offset, i) =>
      val entry = made.find(-1L - i % 5, i % 3)
      if (entry >= 0) made.admit(entry, offset) else made.add(-1L - i % 5, i % 3, offset)
      if (i % 4 > 0) made.see(made.find(-1L - i % 5, i % 3), offset * 1000 - 7)
    }
    made
  }

  private def contents(t: MarkTable): Seq[(Long, Int, Long, Long, Long, Seq[Long])] = (0 until t.size).map {
    e =>
      val window = (0 until MarkTable.wordsFor(t.disorder)).map(t.window(e, _))
      (t.pid(e), t.partition(e), t.mark(e), t.gaps(e), t.lastSeenMs(e), window)
  }

  private def read(bytes: Array[Byte], disorder: Int): MarkTable = {
    val made = new MarkTable(disorder)
    MarkFile.decode(bytes, "the-file", made)(_ => ())
    made
  }

  test(
    "what a file says takes the place of what the table says of the same origins, of others nothing changes"
  ) {
    val base = new MarkTable(70)
    (0 until 40).foreach(pid => base.see(base.add(pid.toLong, 0, 100), 5))
    base.admit(3, 170)
    val file = new MarkTable(70)
    Seq(3L, 99L).foreach(pid => file.see(file.add(pid, 0, 500), 7))
    val entries = Seq.newBuilder[Int]
    MarkFile.decode(MarkFile.encode(file), "f", base)(entries += _)
    assert(entries.result() == Seq(3, 40) && base.size == 41 && base.newestMs == 7)
    assert(base.mark(3) == 500 && base.gaps(3) == 0 && base.admit(3, 499), "the old window is gone")
    assert(base.mark(4) == 100 && base.lastSeenMs(4) == 5 && base.pid(40) == 99)
  }

  test("what is written is read") {
    forAll(Gen.oneOf(0, 1, 64, 100), Gen.listOf(Gen.choose(0L, 300L))) { (disorder, offsets) =>
      val made = table(disorder, offsets)
      val read = this.read(MarkFile.encode(made), disorder)
      assert(contents(read) == contents(made) && read.newestMs == made.newestMs)
    }
  }

  test("the bytes of the format's description") {
    val made = new MarkTable(0)
    made.add(0x0102030405060708L, 9, 10)
    made.admit(0, 12)
    made.see(0, 0x1122334455L)
    val hex = HexFormat.of.formatHex(MarkFile.encode(made))
    assert(
      hex.dropRight(8) == "5452524d" + "00000001" + "00000000" + "00000001" +
        "0102030405060708" + "00000009" + "000000000000000c" + "0000000000000001" + "0000001122334455"
    )
  }

  test("another disorder: what the narrower window has forgotten counts as seen") {
    val narrow = table(2, Seq.empty)
    narrow.add(1, 0, 100)
    narrow.admit(0, 110)
    val wide = read(MarkFile.encode(narrow), 20)
    assert(wide.admit(0, 109) && wide.admit(0, 108))
    assert(!wide.admit(0, 107) && !wide.admit(0, 91))
    val cut = read(MarkFile.encode(wide), 0)
    assert(!cut.admit(0, 109) && cut.admit(0, 111))
  }

  test("any byte changed, and any length, is an error that names the file") {
    val bytes = MarkFile.encode(table(10, 0L to 40L))
    def refused(damaged: Array[Byte]): Unit = {
      val error = intercept[TailraceStateException](read(damaged, 10))
      assert(error.getMessage.contains("the-file"))
    }
    bytes.indices.foreach { i =>
      val damaged = bytes.clone()
      damaged(i) = (damaged(i) ^ 0x10).toByte
      refused(damaged)
    }
    bytes.indices.foreach(length => refused(bytes.take(length)))
    refused(bytes :+ 0.toByte)
  }
}
