package io.tailrace.recursion

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}

import org.apache.spark.SparkThrowable
import org.scalatest.funsuite.AnyFunSuite

final class FeedbackFileSuite extends AnyFunSuite {
  private val rows = Seq(Array[Byte](1, 2, 3), Array.emptyByteArray, Array.fill[Byte](5000)(7))

  private def written(rows: Seq[Array[Byte]]): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val writer = new FeedbackFile.Writer(() => out, "columns")
    rows.foreach(row => writer.add(row.length)(_.write(row)))
    writer.end()
    assert(writer.rows == rows.size)
    out.toByteArray
  }

  private def read(bytes: Array[Byte], columns: String = "columns"): Seq[Seq[Byte]] = {
    val reader = new FeedbackFile.Reader(new ByteArrayInputStream(bytes), "F", columns)
    Iterator.continually(reader.next()).takeWhile(_ >= 0).map(reader.bytes.take(_).toSeq).toVector
  }

  private def condition(body: => Any): String = intercept[Exception](body) match {
    case e: SparkThrowable => e.getCondition
    case e => fail(e)
  }

  test("rows are read as they were written") {
    assert(read(written(rows)) == rows.map(_.toSeq))
  }

  test("a file without rows has no bytes, and isn't even opened") {
    new FeedbackFile.Writer(() => fail("opened"), "columns").end()
  }

  test("the bytes of format 1") {
    val hex = written(Seq(Array[Byte](9, 8))).map(b => f"$b%02x").mkString
    assert(
      hex.dropRight(8) == "54524642" + "00000001" + "00000007" + "636f6c756d6e73" + "00000002" + "0908" +
        "ffffffff" + "0000000000000001"
    )
  }

  test("each byte that changes, and each end too soon, is found") {
    val whole = written(rows.take(2))
    whole.indices.foreach { i =>
      val damaged = whole.clone()
      damaged(i) = (damaged(i) ^ 4).toByte
      assert(condition(read(damaged)).startsWith("TAILRACE_"), i)
      assert(condition(read(whole.take(i))) == "TAILRACE_STATE_FILE_CORRUPT", i)
    }
  }

  test("rows of other columns, and of a later format, are refused by name") {
    assert(condition(read(written(rows), "others")) == "TAILRACE_RECURSION_SCHEMA_CHANGED")
    val later = written(rows)
    later(7) = 2
    assert(condition(read(later)) == "TAILRACE_STATE_FORMAT_UNSUPPORTED")
  }
}
