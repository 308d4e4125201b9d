package io.tailrace.replay

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.util.{Arrays, HexFormat}

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.checkpoint.Checksum
import io.tailrace.common.TailraceStateException

final class MarkFileSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val place = "replays/7.marks"

  private def table(disorder: Int, offsets: Seq[Long]): MarkTable = {
    val made = new MarkTable(disorder)
    offsets.zipWithIndex.foreach { case (offset, i) =>
      val entry = made.find(-1L - i % 5, i % 3)
      if (entry >= 0) made.admit(entry, offset) else made.add(-1L - i % 5, i % 3, offset)
      if (i % 6 > 0) made.setHome(made.find(-1L - i % 5, i % 3), made.homes.of(s"topic/${i % 2}"))
      if (i % 4 > 0) made.see(made.find(-1L - i % 5, i % 3), offset * 1000 - 7)
    }
    made
  }

  private def written(marks: MarkTable, place: String): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    MarkFile.write(bytes, marks, place)
    bytes.toByteArray
  }

  private def contents(t: MarkTable): Seq[(Long, Int, Option[String], Long, Long, Long, Seq[Long])] =
    (0 until t.size).map { e =>
      val window = (0 until MarkTable.wordsFor(t.disorder)).map(t.window(e, _))
      (t.pid(e), t.partition(e), t.homes.name(t.home(e)), t.mark(e), t.gaps(e), t.lastSeenMs(e), window)
    }

  private def read(bytes: Array[Byte], disorder: Int): MarkTable = {
    val made = new MarkTable(disorder)
    MarkFile.decode(bytes, "the-file", place, made)(_ => ())
    made
  }

  test("the length of a file is known before it is written, so its bytes are not copied") {
    for (disorder <- Seq(0, 70); offsets <- Seq(Nil, Seq(5L), (1L to 500L))) {
      val marks = table(disorder, offsets)
      val length = MarkFile.tableLength(marks, marks.size, disorder)
      assert(written(marks, place).length == 20 + place.length + length)
      val bytes = MarkFile.encodeTable(marks, 0, marks.size, disorder)
      assert(bytes.length == length)
      assert(Arrays.equals(MarkFile.encode(Seq(bytes), place), written(marks, place)))
    }
  }

  test(
    "a file's entries replace the table's entries of the same origins, and no others"
  ) {
    val base = new MarkTable(70)
    (0 until 40).foreach(pid => base.see(base.add(pid.toLong, 0, 100), 5))
    base.admit(3, 170)
    val file = new MarkTable(70)
    Seq(3L, 99L).foreach(pid => file.see(file.add(pid, 0, 500), 7))
    val entries = Seq.newBuilder[Int]
    MarkFile.decode(written(file, place), "f", place, base)(entries += _)
    assert(entries.result() == Seq(3, 40) && base.size == 41 && base.newestMs == 7)
    assert(base.mark(3) == 500 && base.gaps(3) == 0 && base.admit(3, 499), "the old window is gone")
    assert(base.mark(4) == 100 && base.lastSeenMs(4) == 5 && base.pid(40) == 99)
  }

  test("a table that is written is read back") {
    forAll(Gen.oneOf(0, 1, 64, 100), Gen.listOf(Gen.choose(0L, 300L))) { (disorder, offsets) =>
      val made = table(disorder, offsets)
      val read = this.read(written(made, place), disorder)
      assert(contents(read) == contents(made) && read.newestMs == made.newestMs)
    }
  }

  test("the bytes are those of the format's description") {
    val made = new MarkTable(0)
    made.add(0x0102030405060708L, 9, 10)
    made.admit(0, 12)
    made.see(0, 0x1122334455L)
    made.setHome(0, made.homes.of("t/0"))
    made.add(1, 2, 3)
    val hex = HexFormat.of.formatHex(written(made, "r/7/x"))
    assert(
      hex.dropRight(8) == "5452524d" + "00000003" + "00000005" + "722f372f78" + "00000001" + "00000000" +
        "00000001" + "00000003" + "742f30" + "00000002" +
        "0102030405060708" + "00000009" + "00000000" + "000000000000000c" + "0000000000000001" +
        "0000001122334455" +
        "0000000000000001" + "00000002" + "ffffffff" + "0000000000000003" + "0000000000000000" +
        "8000000000000000"
    )
  }

  test("format 2 is read, which has one table") {
    val made = table(3, 0L to 9L)
    val now = written(made, place)
    val head = 12 + place.length
    val before = now.take(head) ++ now.drop(head + 4).dropRight(4)
    val bytes = ByteBuffer.wrap(before :+ 0.toByte :+ 0.toByte :+ 0.toByte :+ 0.toByte).putInt(4, 2)
    bytes.putInt(before.length, Checksum.of(bytes.array, before.length))
    assert(contents(read(bytes.array, 3)) == contents(made))
  }

  test("a file of several tables has the entries of all of them, each with its own homes") {
    val tables = Seq(table(2, 0L to 3L), new MarkTable(2), table(2, Nil))
    val other = tables.last
    other.setHome(other.add(77, 1, 5), other.homes.of("topic/9"))
    val all = table(2, 0L to 3L)
    all.append(other, 0)
    val bytes = MarkFile.encode(tables.map(t => MarkFile.encodeTable(t, 0, t.size, t.disorder)), place)
    assert(contents(read(bytes, 2)) == contents(all))
    val parts = (0 until all.size).map(i => MarkFile.encodeTable(all, i, i + 1, 2))
    assert(parts.map(MarkFile.entriesIn).sum == all.size)
    assert(contents(read(MarkFile.encode(parts, place), 2)) == contents(all))
  }

  test("format 1 is read, which has no homes and no place") {
    val bytes = HexFormat.of.parseHex(
      "5452524d000000010000000300000002010203040506070800000009000000000000000c0000000000000001" +
        "00000011223344550000000000000002ffffffffffffffff000000000000000000000064" +
        "0000000000000000800000000000000000000000000000000b094f8e"
    )
    val made = read(bytes, 3)
    assert(
      contents(made) == Seq(
        (0x0102030405060708L, 9, None, 12L, 1L, 0x1122334455L, Seq(2L)),
        (-1L, 0, None, 100L, 0L, Long.MinValue, Seq(0L))
      )
    )
  }

  test("a file in another file's place isn't read") {
    val bytes = written(table(0, 0L to 9L), "replays/6.marks")
    val error = intercept[TailraceStateException](read(bytes, 0))
    assert(error.getCondition == "TAILRACE_STATE_FILE_CORRUPT")
    assert(error.getMessage.contains("replays/6.marks"))
  }

  test("with another disorder, offsets that the narrower window has forgotten count as seen") {
    val narrow = table(2, Seq.empty)
    narrow.add(1, 0, 100)
    narrow.admit(0, 110)
    val wide = read(written(narrow, place), 20)
    assert(wide.admit(0, 109) && wide.admit(0, 108))
    assert(!wide.admit(0, 107) && !wide.admit(0, 91))
    val cut = read(written(wide, place), 0)
    assert(!cut.admit(0, 109) && cut.admit(0, 111))
  }

  test("each changed byte and each other length is an error that names the file") {
    val bytes = written(table(10, 0L to 40L), place)
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
