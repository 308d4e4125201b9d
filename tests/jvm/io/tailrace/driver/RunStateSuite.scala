package io.tailrace.driver

import java.io.File
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.tailrace.MemoryStream
import org.apache.spark.sql.{Dataset, Row}
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Seconds, Span}

import io.tailrace.testkit.SparkSuite

final class RunStateSuite extends SparkSuite {
  import spark.implicits._

  private val soon = timeout(Span(20, Seconds))

  /** The state that an operator of one run keeps. */
  private final class Counter {
    var batches = 0
  }

  private def counting(
      states: RunState[Counter],
      source: MemoryStream.Of[Long],
      checkpoint: File,
      seen: ConcurrentLinkedQueue[Int]
  ): StreamingQuery =
    source
      .toDF()
      .writeStream
      .option("checkpointLocation", checkpoint.getPath)
      .foreachBatch { (rows: Dataset[Row], _: Long) =>
        val counter = states.of(rows.sparkSession.asInstanceOf[ClassicSession], "counter")(new Counter)
        counter.batches += 1
        seen.add(counter.batches)
        ()
      }
      .start()

  private def batch(query: StreamingQuery, source: MemoryStream.Of[Long]): Unit = {
    source.addData(1L)
    query.processAllAvailable()
  }

  test("state that is opened may ask for state of its own, of the same registry too") {
    val states = new RunState[Int]
    val session = spark.asInstanceOf[ClassicSession]
    def depth(n: Int): Int =
      states.of(session, "a run that has ended", n.toString)(if (n == 0) 0 else depth(n - 1) + 1)
    assert(depth(200) == 200)
  }

  test(
    "two runs have states of their own, a restarted query has a new state, and a run's end drops its state"
  ) {
    withDirectory { directory =>
      val closed = new ConcurrentLinkedQueue[Int]
      val states = new RunState[Counter](counter => closed.add(counter.batches): Unit)
      val sources = Seq.fill(2)(MemoryStream[Long](spark))
      val seen = Seq.fill(2)(new ConcurrentLinkedQueue[Int])
      def start(n: Int): StreamingQuery =
        counting(states, sources(n), new File(directory, n.toString), seen(n))
      val first = start(0)
      val other = start(1)
      (1 to 3).foreach(_ => batch(first, sources.head))
      batch(other, sources(1))
      assert(seen.map(_.asScala.toSeq) == Seq(Seq(1, 2, 3), Seq(1)))
      assert(states.size == 2)
      first.stop()
      eventually(soon)(assert(closed.asScala.toSeq == Seq(3) && states.size == 1))
      batch(start(0), sources.head)
      batch(other, sources(1))
      assert(seen.map(_.asScala.toSeq) == Seq(Seq(1, 2, 3, 1), Seq(1, 2)))
    }
  }

  test("a state that can't be closed fails nobody who opens another, and the others are closed") {
    val closed = new ConcurrentLinkedQueue[Int]
    val states =
      new RunState[Int](n => if (n == 2) throw new IllegalStateException("stuck") else closed.add(n): Unit)
    (1 to 3).foreach(n => states.of(spark, "ended", n.toString)(n))
    new RunState[Int].of(spark, "another", "one")(0)
    assert(closed.asScala.toSet == Set(1, 3) && states.size == 0)
  }

  test("state that is opened after its run has ended is dropped when other state is opened") {
    val states = new RunState[Counter]
    (1 to 1000).foreach(n => states.of(spark, s"ended-$n", "counter")(new Counter))
    assert(states.size == 1)
  }
}
