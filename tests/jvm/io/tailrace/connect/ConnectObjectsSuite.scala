package io.tailrace.connect

import org.apache.spark.sql.connect.service.SessionHolder
import org.apache.spark.sql.tailrace.{EndedSession, SparkSession}
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testing.TestStreams
import io.tailrace.testkit.LocalSpark

final class ConnectObjectsSuite extends AnyFunSuite {
  private def spark = LocalSpark.session

  private def holder(session: String): SessionHolder =
    SessionHolder("user", session, spark.asInstanceOf[SparkSession])

  private final class Closed extends AutoCloseable {
    var times = 0
    override def close(): Unit = times += 1
  }

  test("an object is its session's alone, and is closed with the session") {
    val (one, another) = (holder("one"), holder("another"))
    val closed = new Closed
    val name = ConnectObjects.of(one).hold(closed, None)
    assert(ConnectObjects.of(one)(name) eq closed)
    intercept[NoSuchElementException](ConnectObjects.of(another)(name))

    EndedSession.tell(another)
    assert(closed.times == 0)
    EndedSession.tell(one)
    assert(closed.times == 1)
    intercept[NoSuchElementException](ConnectObjects.of(one)(name))
    EndedSession.tell(one)
    assert(closed.times == 1)
  }

  test("what an object has given is gone with it") {
    val objects = ConnectObjects.of(holder("given"))
    val streams = objects.hold(new TestStreams(spark, 0), None)
    val query = objects.hold("a query", Some(streams))
    val further = objects.hold("its rows", Some(query))
    val other = objects.hold("of another", None)
    objects.invoke(streams, "close", Nil)
    Seq(streams, query, further).foreach(name => intercept[NoSuchElementException](objects(name)))
    assert(objects(other) == "of another")
  }

  test("only the methods that a test has are called: a class leads to all others") {
    val objects = ConnectObjects.of(holder("methods"))
    val streams = objects.hold(new TestStreams(spark, 7), None)
    assert(objects.invoke(streams, "clockMs", Nil) == 7)
    Seq("getClass", "notify", "hashCode").foreach { method =>
      intercept[NoSuchMethodException](objects.invoke(streams, method, Nil))
    }
  }
}
