package io.tailrace.recursion

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.util.HexFormat

import org.apache.spark.SparkThrowable
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException

final class FeedbackFileSuite extends AnyFunSuite {
  private val rows = Seq(Array[Byte](1, 2, 3), Array.emptyByteArray, Array.fill[Byte](5000)(7))

  private val place = "r/7/f"

  private def written(rows: Seq[Array[Byte]]): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val writer = new FeedbackFile.Writer(() => out, place, "columns")
    rows.foreach(row => writer.add(row.length)(_.write(row)))
    writer.end()
    assert(writer.rows == rows.size)
    out.toByteArray
  }

  private def read(bytes: Array[Byte], columns: String = "columns", at: String = place): Seq[Seq[Byte]] = {
    val reader = new FeedbackFile.Reader(new ByteArrayInputStream(bytes), "F", at, columns)
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
    new FeedbackFile.Writer(() => fail("opened"), place, "columns").end()
  }

  private val behindThePlace =
    "00000007" + "636f6c756d6e73" + "00000002" + "0908" + "ffffffff" + "0000000000000001"

  test("the bytes of format 2") {
    val hex = written(Seq(Array[Byte](9, 8))).map(b => f"$b%02x").mkString
    assert(hex.dropRight(8) == "54524642" + "00000002" + "00000005" + "722f372f66" + behindThePlace)
  }

  test("format 1, which knows no place, is read") {
    val bytes = HexFormat.of.parseHex("54524642" + "00000001" + behindThePlace + "440a2a46")
    assert(read(bytes) == Seq(Seq[Byte](9, 8)))
  }

  test("a file of another batch, task or recursion isn't believed") {
    val other = intercept[TailraceStateException](read(written(rows), at = "r/8/f"))
    assert(other.getCondition == "TAILRACE_STATE_FILE_CORRUPT" && other.getMessage.contains("'r/7/f'"))
  }

  test("each byte that changes, and each end too soon, is found") {
    val whole = written(rows.take(2))
    whole.indices.foreach { i =>
      val damaged = whole.clone()
      damaged(i) = (damaged(i) ^ 4).toByte
      assert(condition(read(damaged)).startsWith("TAILRACE_"), i)
      assert(condition(read(whole.take(i))) == "TAILRACE_STATE_FILE_CORRUPT", i)
    }
    assert(condition(read(whole :+ 0.toByte)) == "TAILRACE_STATE_FILE_CORRUPT")
  }

  test("rows of other columns, and of a later format, are refused by name") {
    assert(condition(read(written(rows), "others")) == "TAILRACE_RECURSION_SCHEMA_CHANGED")
    val later = written(rows)
    later(7) = 3
    assert(condition(read(later)) == "TAILRACE_STATE_FORMAT_UNSUPPORTED")
  }
}
