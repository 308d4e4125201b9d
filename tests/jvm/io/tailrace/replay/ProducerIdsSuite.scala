package io.tailrace.replay

import org.scalatest.funsuite.AnyFunSuite

final class ProducerIdsSuite extends AnyFunSuite {
  private def hash(parts: Seq[String]): Long =
    ProducerIds.hash(parts(0), parts(1), parts(2), parts(3), parts(4))

  test("the golden vectors") {
    GoldenMetadata.producers.foreach(p => assert(hash(p.parts) == p.pid, p.parts))
  }

  test("the order of the brokers, spaces and doubles don't matter; every part does") {
    val parts = Seq("sessions", "clicks", "b1:9092,b2:9092", "topic-1", "1")
    val same = Seq("b2:9092,b1:9092", " b1:9092 , b2:9092 ", "b1:9092,b2:9092,b1:9092", "b1:9092,,b2:9092")
    same.foreach(brokers => assert(hash(parts.updated(2, brokers)) == hash(parts)))
    parts.indices.foreach(i => assert(hash(parts.updated(i, parts(i) + "x")) != hash(parts)))
    assert(hash(Seq("ab", "c", "", "", "")) != hash(Seq("a", "bc", "", "", "")))
  }
}
