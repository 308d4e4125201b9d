package io.tailrace.checkpoint

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.nio.ByteBuffer
import java.util.HexFormat

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException

final class CheckedFileSuite extends AnyFunSuite {
  private val kind = new CheckedBytes(0x54524142, "a test", oldest = 1, newest = 2, placedSince = 2)
  private val text = new CheckedText("tailrace-test", "a test", oldest = 1, newest = 2, placedSince = 2)

  private def bytes: Array[Byte] = kind.encode("d/7") { out =>
    CheckedBytes.writeText(out, "héllo")
    out.writeLong(5)
  }
  private def decode(bytes: Array[Byte], place: String = "d/7"): (Int, String, Long) =
    kind.decode(bytes, "F", place)((format, in) => (format, CheckedBytes.readText(in), in.getLong()))

  private def fails(condition: String, reason: String = "")(body: => Any): Assertion = {
    val e = intercept[TailraceStateException](body)
    assert(e.getCondition == s"TAILRACE_STATE_$condition" && e.getMessageParameters.get("file") == "F")
    assert(e.getMessage.contains(reason))
  }

  private def checked(hex: String): Array[Byte] = {
    val body = HexFormat.of.parseHex(hex)
    body ++ ByteBuffer.allocate(4).putInt(Checksum.of(body, body.length)).array
  }

  test("a binary file has magic, format, place, body and checksum") {
    assert(decode(bytes) == ((2, "héllo", 5L)))
    assert(
      bytes.sameElements(
        checked("54524142" + "00000002" + "00000003642f37" + "0000000668c3a96c6c6f" + "0000000000000005")
      )
    )
  }

  test("a known length only saves a copy") {
    def of(length: Int) = kind.encode("d/7", length)(_.writeInt(9))
    assert(Seq(0, 4, 100).forall(of(_).sameElements(of(4))))
  }

  test("an older format without a place is read") {
    val old = checked("54524142" + "00000001" + "000000026869" + "0000000000000005")
    assert(decode(old) == ((1, "hi", 5L)))
  }

  test("other formats, places and kinds are refused by the file's name") {
    def ofFormat(n: Int) = bytes.updated(7, n.toByte)
    Seq(0, 3, 99).foreach(n => fails("FORMAT_UNSUPPORTED", s"format $n")(decode(ofFormat(n))))
    fails("FILE_CORRUPT", "it belongs to 'd/7', not to 'd/8'")(decode(bytes, "d/8"))
    fails("FILE_CORRUPT", "it isn't a test")(decode(bytes.updated(0, 0.toByte)))
  }

  test("every changed byte and every other length of a binary file is found") {
    bytes.indices.foreach { i =>
      intercept[TailraceStateException](decode(bytes.updated(i, (bytes(i) ^ 0x10).toByte)))
      fails("FILE_CORRUPT")(decode(bytes.take(i)))
    }
    fails("FILE_CORRUPT")(decode(bytes :+ 0.toByte))
    fails("FILE_CORRUPT", "8 bytes are left over") {
      kind.decode(bytes, "F", "d/7")((_, in) => CheckedBytes.readText(in))
    }
  }

  test("a length that doesn't fit into the file is an error, not an array of that length") {
    Seq("7fffffff", "ffffffff").foreach { length =>
      fails("FILE_CORRUPT")(decode(checked("54524142" + "00000002" + length)))
      val in = new DataInputStream(new ByteArrayInputStream(HexFormat.of.parseHex(length + "6869")))
      intercept[java.io.EOFException](CheckedBytes.readText(in))
    }
  }

  test("a file that is read piece by piece begins as one that is read at once") {
    val out = new ByteArrayOutputStream
    kind.writeHead(new DataOutputStream(out), "d/7")
    assert(bytes.startsWith(out.toByteArray))
    def head(place: String) = kind.readHead(new DataInputStream(new ByteArrayInputStream(bytes)), "F", place)
    assert(head("d/7") == 2)
    fails("FILE_CORRUPT", "it belongs to")(head("d/8"))
    fails("FILE_CORRUPT", "checksum")(kind.checkEnd(1, 2, "F"))
  }

  test("a text file has three lines: magic, format and place; body; checksum") {
    val lines = "tailrace-test 2 7.batch\n{}\n"
    assert(new String(text.encode("{}", "7.batch")) == s"$lines${Checksum.hex(lines)}\n")
    assert(text.decode(text.encode("{}", "7.batch"), "F", "7.batch")(identity) == "{}")
    val old = "tailrace-test 1\n{}\n"
    assert(text.decode(s"$old${Checksum.hex(old)}\n".getBytes, "F", "7.batch")(identity) == "{}")
  }

  test("a text file of another format, place or kind, or with a body that can't be read, is refused") {
    def read(lines: String) =
      text.decode(s"$lines${Checksum.hex(lines)}\n".getBytes, "F", "7.batch")(_.toInt)
    assert(read("tailrace-test 2 7.batch\n5\n") == 5)
    fails("FORMAT_UNSUPPORTED", "format 3")(read("tailrace-test 3 other\nof another\nshape\n"))
    fails("FILE_CORRUPT", "it belongs to '8.batch', not to '7.batch'")(read("tailrace-test 2 8.batch\n5\n"))
    fails("FILE_CORRUPT", "it isn't a test")(read("tailrace-other 2 7.batch\n5\n"))
    fails("FILE_CORRUPT", "its content can't be read")(read("tailrace-test 2 7.batch\nfive\n"))
  }
}
