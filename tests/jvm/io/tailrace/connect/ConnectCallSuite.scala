package io.tailrace.connect

import java.io.ByteArrayOutputStream

import org.apache.spark.connect.proto.Relation
import org.scalatest.funsuite.AnyFunSuite
import org.sparkproject.connect.protobuf.{ByteString, CodedOutputStream}

/** The message of a call, also that of a client of another version. */
final class ConnectCallSuite extends AnyFunSuite {

  private def parsed(fields: (Int, Array[Byte])*): ConnectCall = {
    val bytes = new ByteArrayOutputStream
    val out = CodedOutputStream.newInstance(bytes)
    fields.foreach { case (number, content) => out.writeByteArray(number, content) }
    out.flush()
    ConnectCall.parse(ByteString.copyFrom(bytes.toByteArray))
  }

  test("name, arguments and DataFrames") {
    val relation =
      Relation.newBuilder().setRange(org.apache.spark.connect.proto.Range.newBuilder().setEnd(3)).build()
    val call = parsed(1 -> "join".getBytes, 3 -> "{}".getBytes, 4 -> relation.toByteArray)
    assert(call == ConnectCall("join", "{}", Seq(relation), Nil))
  }

  test("fields of other versions are skipped: the arguments of before, and later ones") {
    assert(parsed(1 -> "join".getBytes, 2 -> Array(7), 9 -> Array(7)) == ConnectCall("join", "", Nil, Nil))
  }
}
