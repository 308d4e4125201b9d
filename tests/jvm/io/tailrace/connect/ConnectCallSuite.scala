package io.tailrace.connect

import java.io.ByteArrayOutputStream

import org.scalatest.funsuite.AnyFunSuite
import org.sparkproject.connect.protobuf.{ByteString, CodedOutputStream}

import io.tailrace.common.TailraceAnalysisException

/** Calls of a client of another version, or of one that isn't Tailrace's. */
final class ConnectCallSuite extends AnyFunSuite {

  /** A message with one field. */
  private def message(field: Int, content: Array[Byte]): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = CodedOutputStream.newInstance(bytes)
    out.writeByteArray(field, content)
    out.flush()
    bytes.toByteArray
  }

  private val Text = message(2, "a".getBytes)
  private def list(item: Array[Byte]): Array[Byte] = message(6, message(1, item))
  private def call(argument: Array[Byte]): Seq[AnyRef] =
    ConnectCall.parse(ByteString.copyFrom(message(2, argument)), null).arguments

  private def refused(of: => Any): String = {
    val e = intercept[TailraceAnalysisException](of)
    assert(e.getCondition == "TAILRACE_CONNECT_CALL_UNKNOWN")
    e.getMessageParameters.get("call")
  }

  test("lists in lists, up to a number") {
    def nested(levels: Int) = Iterator.iterate(Text)(list).drop(levels).next()
    assert(call(nested(3)).toString == "List([[[a]]])")
    assert(call(nested(16)).size == 1)
    Seq(17, 5000).foreach { levels =>
      assert(refused(call(nested(levels))) == "more than 16 lists in each other")
    }
  }

  test("a map has a value for each key") {
    assert(call(message(7, message(1, Text) ++ message(1, Text))).toString == "List({a=a})")
    assert(refused(call(message(7, message(1, Text)))) == "a map with a key that has no value")
  }

  test("an argument that a method can't take") {
    val charAt = classOf[String].getMethod("charAt", classOf[Int])
    def called(arguments: AnyRef*) = ConnectMethods.invoke("abc", charAt, arguments)
    assert(called(Long.box(1)) == 'b')
    assert(refused(called(Long.box(1L << 32))) == "charAt with Long as argument 1, which is int")
    assert(refused(called(null)) == "charAt with null as argument 1, which is int")
    assert(refused(called("1")) == "charAt with String as argument 1, which is int")
    assert(refused(called()) == "charAt with 0 arguments")
    val equals = classOf[String].getMethod("equalsIgnoreCase", classOf[String])
    assert(ConnectMethods.invoke("abc", equals, Seq("ABC")) == true)
    assert(ConnectMethods.invoke("abc", equals, Seq(null)) == false)
  }
}
