package io.tailrace.state

import java.io.File
import java.nio.{ByteBuffer, ByteOrder}

import org.apache.spark.SparkThrowable
import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.testkit.{RunFixture, TestRow}

/** Pages that don't say the truth, in a file whose checksums are right: nothing but the cursor stands between
  * them and the JVM's memory.
  */
final class RunDamageSuite extends AnyFunSuite with RunFixture with ScalaCheckPropertyChecks {
  private val kind = StoreKind.RightKeySorted
  private val rows = Vector(
    TestRow.of("a", 1, 1, "first"),
    TestRow.of("a key of more than eight bytes", 2, 2, "second"),
    TestRow.of("b", 3, 3, "third")
  )
  private var files = 0

  private val page: Array[Byte] = {
    val bytes = rows.map(_.layout)
    val head = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN)
    head.putInt(rows.size).putInt(8 + bytes.init.map(_.length).sum)
    head.array ++ bytes.flatten
  }

  private def starts: Vector[Int] = rows.map(_.layout.length).scanLeft(8)(_ + _).init

  private def runOf(content: Array[Byte]): LiveSection = {
    files += 1
    val file = new File(directory, s"damaged-$files.run")
    val writer = BlockCache.ofExecutor.newWriter()
    try {
      writer.open(file.getPath)
      val key = ByteBuffer.allocate(256)
      RunKey.write(key, kind, 0, rows.head.key.toArray, rows.head.key.size, 1, 1)
      writer.put(key.array.take(key.remaining), content)
      writer.finish()
    } finally writer.close()
    opening(file, Seq(Section(kind.name, 0, rows.size.toLong, 1, 3, 1))).head
  }

  /** Each row that the cursor stops at must be within the page. */
  private def walk(content: Array[Byte], start: RunCursor => Unit): Vector[TestRow] = {
    val cursor = runOf(content).cursor()
    var found = Vector.empty[TestRow]
    try {
      start(cursor)
      while (cursor.isValid) {
        val from = cursor.at - TestRow.At
        assert(from >= 8 && from + RowLayout.length(cursor.base, cursor.at) <= content.length)
        found :+= TestRow.read(cursor)
        cursor.next()
      }
      found
    } finally cursor.close()
  }

  private val starters: Seq[RunCursor => Unit] = Seq(
    _.first(),
    _.seekKey(rows.last.layout, TestRow.At),
    cursor => {
      cursor.first()
      cursor.advanceTo(rows.last.layout, TestRow.At)
    }
  )

  private def assertCorrupt(content: Array[Byte]): Unit = starters.foreach { start =>
    intercept[Exception](walk(content, start)) match {
      case e: SparkThrowable => assert(e.getCondition == "TAILRACE_STATE_LOCAL_FILE")
      case e => throw e
    }
  }

  private def withInt(at: Int, value: Int): Array[Byte] = {
    val bytes = page.clone()
    ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).putInt(at, value)
    bytes
  }

  test("the page without damage is read") {
    assert(walk(page, starters(0)) == rows)
    assert(walk(page, starters(1)) == rows.takeRight(1))
    assert(walk(page, starters(2)) == rows.takeRight(1))
  }

  test("lengths of key and value beyond the page, or negative, are refused in each row") {
    for (start <- starts; field <- Seq(16, 20)) {
      Seq(page.length, 1 << 20, Int.MaxValue, Int.MaxValue - 7, -1, -8, Int.MinValue).foreach { length =>
        assertCorrupt(withInt(start + field, length))
      }
    }
  }

  test("a last row outside of the page, or that isn't a row, is refused") {
    Seq(-1, 0, 7, page.length - 8, page.length, page.length + 8, Int.MaxValue, Int.MinValue, -8).foreach {
      at =>
        assertCorrupt(withInt(PageBuffer.LastRowAt, at))
    }
  }

  test("rows that pass over the last one are refused") {
    // The first row says that it ends within the last one.
    assertCorrupt(withInt(starts(0) + 20, starts(2) + 8 - starts(0) - 32))
  }

  test("a page that was cut at any byte is refused") {
    page.indices.foreach(n => assertCorrupt(page.take(n)))
  }

  test("with any four bytes replaced, there is an error or rows within the page") {
    val values = Gen.oneOf(Gen.choose(-300, 300), Arbitrary.arbitrary[Int])
    forAll(Gen.choose(0, page.length - 4), values, Gen.oneOf(starters), minSuccessful(300)) {
      (at, value, start) =>
        try walk(withInt(at, value), start)
        catch {
          case e: SparkThrowable => assert(e.getCondition == "TAILRACE_STATE_LOCAL_FILE")
        }
    }
  }
}
