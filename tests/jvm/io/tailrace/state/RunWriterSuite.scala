package io.tailrace.state

import java.io.File
import java.nio.ByteBuffer
import java.util.HexFormat

import scala.collection.mutable.ArrayBuffer

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{RunFixture, TestRow}

final class RunWriterSuite extends AnyFunSuite with RunFixture {
  private val kind = StoreKind.RightKeySorted

  /** Keys and values of all pages of the kind's rows. */
  private def pagesOf(live: LiveSection): Seq[(Array[Byte], Array[Byte])] = {
    val opened = live.local.open()
    val entries = opened.entries
    val found = new ArrayBuffer[(Array[Byte], Array[Byte])]
    try {
      entries.seekToFirst()
      while (entries.isValid) {
        if (entries.key().head == kind.id) found += entries.key() -> entries.value()
        entries.next()
      }
    } finally live.local.close(opened)
    found.toSeq
  }

  private def intAt(page: Array[Byte], at: Int): Int =
    ByteBuffer.wrap(page).order(java.nio.ByteOrder.LITTLE_ENDIAN).getInt(at)

  /** Rows of 712 bytes, of which 23 fill a page to its last byte. */
  private def rowsOf712(n: Int): Seq[TestRow] =
    Seq.tabulate(n)(i => TestRow(TestRow.key(f"$i%06d"), i.toLong, i.toLong, Vector.fill(680)(i.toByte)))

  test("a page and its key have the bytes of the format") {
    val rows =
      Seq(TestRow.of("a", -2, 7, "x"), TestRow.of("b", 258, 8, "value of 9").copy(key = Vector(0x62, 3)))
    val pages = pagesOf(newSection(kind, rows, bucket = -1))
    assert(pages.size == 1)
    val (key, page) = pages.head
    assert(
      HexFormat.of().formatHex(key) ==
        "03" + "7fffffffffffffff" + "610000" + "7ffffffffffffffe" + "0000000000000007"
    )
    assert(
      HexFormat.of().formatHex(page) ==
        "02000000" + "30000000" +
        "feffffffffffffff" + "0700000000000000" + "03000000" + "01000000" +
        "6100000000000000" + "7800000000000000" +
        "0201000000000000" + "0800000000000000" + "02000000" + "0a000000" +
        "6203000000000000" + "76616c7565206f66" + "2039000000000000"
    )
  }

  test("a page is filled to its last byte, and the next row begins another") {
    Seq(1 -> Seq(1), 22 -> Seq(22), 23 -> Seq(23), 24 -> Seq(23, 1), 46 -> Seq(23, 23), 47 -> Seq(23, 23, 1))
      .foreach { case (n, expected) =>
        val rows = rowsOf712(n)
        val live = newSection(kind, rows)
        val pages = pagesOf(live).map(_._2)
        assert(pages.map(intAt(_, PageBuffer.RowsAt)) == expected)
        assert(pages.map(intAt(_, PageBuffer.LastRowAt)) == expected.map(r => 8 + (r - 1) * 712))
        assert(pages.map(_.length) == expected.map(8 + _ * 712))
        assert(pages.forall(_.length <= PageBuffer.Capacity))
        assert(TestRow.all(live) == rows)
        assert(live.section.bytes == n * 712)
      }
  }

  test("a row larger than a page has a page of its own, between others") {
    val large = PageBuffer.Capacity * 5
    val sizes = Seq(10, large, 20, 30, large + 1, large * 2, 40)
    val rows = sizes.zipWithIndex.map { case (n, i) =>
      TestRow(TestRow.key(s"k$i"), i.toLong, i.toLong, Vector.tabulate(n)(b => (b + i).toByte))
    }
    val live = newSection(kind, rows)
    assert(pagesOf(live).map(p => intAt(p._2, PageBuffer.RowsAt)) == Seq(1, 1, 2, 1, 1, 1))
    assert(TestRow.all(live) == rows)
  }

  test("pages that begin with rows of equal key and time stay apart") {
    val rows = Seq.tabulate(100)(i => TestRow(TestRow.key("k"), 3, i.toLong, Vector.fill(680)(i.toByte)))
    StoreKind.all.foreach(k => assert(TestRow.all(newSection(k, rows)) == rows))
  }

  test("a page's key has room for a key longer than any before it") {
    val rows = Seq(3, 300, 70000, 5).zipWithIndex.map { case (n, i) =>
      TestRow(TestRow.key(s"$i" + "k" * n), i.toLong, i.toLong, Vector.fill(17000)(1.toByte))
    }
    assert(TestRow.all(newSection(kind, rows)) == rows)
  }

  test("a section without rows isn't written") {
    val writer = new RunWriter(new File(directory, "a.run"))
    try {
      writer.begin(kind, 1)
      writer.end()
      writer.begin(kind, 2)
      writer.append(TestRow.of("k", 1, 1).layout, TestRow.At)
      writer.end()
      assert(writer.sections.map(_.bucket) == Seq(2))
    } finally writer.close()
  }

  test("sections must come by store and bucket") {
    val before = Seq(StoreKind.LeftKeySorted -> 5L, kind -> 4L, kind -> 5L)
    before.foreach { case (k, bucket) =>
      val writer = new RunWriter(new File(directory, s"${k.id}-$bucket.run"))
      try {
        writer.begin(kind, 5)
        writer.append(TestRow.of("k", 1, 1).layout, TestRow.At)
        writer.end()
        assertThrows[IllegalArgumentException](writer.begin(k, bucket))
        writer.begin(kind, 6)
      } finally writer.close()
    }
  }

  test("a second close does nothing") {
    val writer = new RunWriter(new File(directory, "a.run"))
    writer.close()
    writer.close()
    val buffers = Seq.fill(100)(PageBuffer.take())
    assert(buffers.distinct.size == buffers.size)
    buffers.foreach(PageBuffer.giveBack)
  }

  test("a file that can't be written is an error at once, and nothing stays taken") {
    val buffers = Seq.fill(100)(PageBuffer.take())
    PageBuffer.giveBack(buffers.head)
    val error =
      intercept[TailraceStateException](new RunWriter(new File(directory, "missing/1.run")))
    assert(error.getCondition == "TAILRACE_STATE_FILE_UNAVAILABLE")
    assert(error.getMessageParameters.get("file").endsWith("missing/1.run"))
    assert(PageBuffer.take() eq buffers.head)
    buffers.foreach(PageBuffer.giveBack)
  }
}
