package io.tailrace.watermark

import java.io.File

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{DataFrame, Row}

import io.tailrace.api.Tailrace
import io.tailrace.label.JoinOptions
import io.tailrace.recursion.RecursionOptions
import io.tailrace.testkit.LoggedStream.{at, logged}
import io.tailrace.testkit.{Logged, LoggedStream, Slow, SparkSuite, WatermarkServerStub}

import com.fasterxml.jackson.databind.JsonNode

/** A function of tasks. The suite itself can't be sent to a task. */
private object QueryTopologySuite {
  def micros(second: Double): Long = at(second).getTime * 1000
}

/** The operators of a query that are reported to a watermark server. */
final class QueryTopologySuite extends SparkSuite {
  import QueryTopologySuite._

  private def withServer(body: (WatermarkServerStub, File) => Unit): Unit = withDirectory { directory =>
    val server = new WatermarkServerStub().start()
    try body(server, directory)
    finally server.close()
  }

  private def source(server: WatermarkServerStub, name: String) = WatermarkOptions(
    completeness = "100%",
    hosts = Some(Seq("a", "b")),
    server = Some(server.url),
    app = Some("my app"),
    operator = Some(name),
    name = name
  )

  private def logs(in: DataFrame, options: WatermarkOptions): DataFrame =
    Tailrace.accurateWatermark(in, "at", "host", options)

  /** An operator in the last report that contains it. */
  private def operator(server: WatermarkServerStub, name: String): JsonNode =
    server.reports
      .flatMap(_.get("operators").elements.asScala)
      .filter(_.get("operator").asText == name)
      .last

  private def lows(operator: JsonNode): Seq[Long] =
    operator.get("low_watermarks").properties.asScala.map(_.getValue.asLong).toSeq.sorted

  private def upstreams(operator: JsonNode): Set[String] =
    operator.get("upstreams").elements.asScala.map(_.asText).toSet

  test("a join is at its oldest left row, an aggregation and the sink where Spark's propagation is", Slow) {
    withServer { (server, directory) =>
      val stream = new LoggedStream(spark, directory, sources = 2)({ in =>
        val clicks = logs(in.head, source(server, "clicks"))
        val views = logs(in(1), source(server, "views")).toDF("rhost", "rat", "id")
        Tailrace
          .join(
            clicks,
            views,
            Seq("id" -> "id"),
            JoinOptions(leftTime = "at", rightTime = "rat", after = "5 seconds")
          )
          .groupBy(window(col("at"), "10 seconds"))
          .count()
          .select("window.start", "count")
      }).start()
      val join = "clicks/tailraceLabelJoin-1"
      val aggregation = "clicks/stateStoreSave-0"
      // Two rows of one key. They are so near that the state has only the older one's time.
      val early = Seq(Logged("a", at(1), 7), Logged("a", at(1.5), 7))
      val both = Seq(early ++ logged("b" -> 20, "a" -> 20), logged("a" -> 20, "b" -> 20))
      assert(stream.add(both: _*) == Nil)
      // No low watermark yet: an operator without rows has no time of its own.
      assert(lows(operator(server, join)).forall(_ == ServerConnection.Earliest))
      server.low = Some(micros(3))
      stream.add(logged("a" -> 21), logged("a" -> 21))
      assert(lows(operator(server, join)).head == micros(1))
      assert(lows(operator(server, join)).forall(_ <= micros(3)))
      assert(upstreams(operator(server, join)) == Set("clicks", "views"))
      Seq(join, aggregation).foreach { name =>
        val told = operator(server, name)
        assert(told.get("key_groups").asInt == told.get("low_watermarks").size, name)
      }
      server.low = Some(micros(6.2))
      stream.add(logged("a" -> 22), logged("a" -> 22))
      // The row at 1 has come out, the other one waits until 6.5.
      val waiting = lows(operator(server, join)).head
      assert(waiting > micros(1.199) && waiting <= micros(1.5))
      server.low = Some(micros(9))
      stream.add(logged("a" -> 23), logged("a" -> 23))
      assert(lows(operator(server, join)).head == micros(8.999) + 1)
      assert(upstreams(operator(server, aggregation)) == Set(join))
      // A window's rows wait in the aggregation until the join has no more rows for it.
      assert(lows(operator(server, aggregation)).forall(_ <= micros(4)))
      val sink = operator(server, "clicks/sink")
      def label(name: String) = operator(server, name).get("label").asText
      assert(label(join) == "join on id" && label(aggregation) == "count by window")
      assert(label("clicks/sink") == "sink (ForeachBatch)")
      assert(
        label("clicks") == "source clicks (MemoryStream)" && label("views") == "source views (MemoryStream)"
      )
      assert(sink.get("kind").asText == "sink" && upstreams(sink) == Set(aggregation) && lows(sink).isEmpty)
      val tellers =
        server.reports.filter(_.get("operators").size > 1).map(_.at("/operators/0/operator").asText)
      assert(tellers.toSet == Set("clicks"), "one of the sources reports the query")
    }
  }

  test("a recursion is at its oldest row in flight") {
    withServer { (server, directory) =>
      val stream = new LoggedStream(spark, directory)({ in =>
        val options = RecursionOptions(mode = "feedback")
        Tailrace.recursively(logs(in.head, source(server, "logs")), options) { rows =>
          rows.filter("id < 3").select(col("host"), col("at"), (col("id") + 1).as("id"))
        }
      }).start()
      server.low = Some(micros(20))
      // The first row gives three more rows, one in each batch. The other rows give none.
      stream.add(Seq(Logged("a", at(5), 0), Logged("a", at(20), 9), Logged("b", at(20), 9)))
      assert(stream.all.map(_.getLong(2)) == Seq(1, 2, 3))
      val name = "logs/tailraceRecursion-recursion"
      assert(upstreams(operator(server, name)) == Set("logs"))
      assert(operator(server, name).get("label").asText == "recursion")
      assert(upstreams(operator(server, "logs/sink")) == Set(name))
      val told = server.reports
        .flatMap(_.get("operators").elements.asScala)
        .filter(_.get("operator").asText == name)
        .map(lows(_).head)
      // Three batches with a row in flight, and one that finds that none is left.
      assert(told.size >= 4 && told.take(3).forall(_ <= micros(5)))
      stream.add(logged("a" -> 30, "b" -> 30))
      assert(lows(operator(server, name)).head > micros(5))
    }
  }

  test("a source of stamps reports their low watermark, and a sink without state has it upstream") {
    withServer { (server, directory) =>
      val stamp = udf((id: Long) => WatermarkStamp.encode(micros(id.toDouble), WatermarkStamp.WholeShare))
      val stream = new LoggedStream(spark, directory)({ in =>
        val topic = in.head.withColumn("topic", lit("t")).withColumn("w", stamp(col("id")))
        val options = source(server, "topic").copy(hosts = None)
        Tailrace.stampedWatermark(topic, "at", "w", Seq("topic", "host"), options)
      }).start()
      stream.add(Seq(Logged("0", at(9), 7), Logged("1", at(8), 6)))
      val topic = operator(server, "topic")
      assert(topic.get("input_low_watermark").asLong == micros(6))
      assert(server.progress(server.reports.last) == Map("t-0" -> micros(7), "t-1" -> micros(6)))
      assert(upstreams(operator(server, "topic/sink")) == Set("topic"))
    }
  }

  test("a stamp isn't after any sink of the application, also in the first batch after a start") {
    withServer { (server, directory) =>
      val stream = new LoggedStream(spark, directory)({ in =>
        Tailrace
          .stampWatermark(logs(in.head, source(server, "source")))
          .select(call_function("parse_watermark_stamp", col("watermark")).getField("low_watermark"))
      }).start()
      server.low = Some(micros(20))
      assert(stream.add(logged("a" -> 30)) == Seq(Row(null)))
      assert(stream.add(logged("a" -> 31)) == Seq(Row(null)), "nobody knows of the sinks")
      server.globalLow = Some(micros(5))
      stream.add(logged("a" -> 32))
      assert(stream.add(logged("a" -> 33)) == Seq(Row(at(5))))
      server.globalLow = Some(micros(50))
      stream.restart()
      assert(stream.add(logged("a" -> 34)) == Seq(Row(at(19.999001))))
    }
  }

  test("sources of other applications are not reported") {
    withServer { (server, directory) =>
      val stream = new LoggedStream(spark, directory, sources = 2)({ in =>
        val mine = logs(in.head, source(server, "mine")).select("at", "id")
        val other = logs(in(1), source(server, "alone").copy(server = None, app = None, operator = None))
          .select("at", "id")
        mine.union(other)
      })
      withConf("spark.tailrace.watermark.labels" -> "mine/sink = the dashboard") {
        stream.start()
        stream.add(logged("a" -> 1), logged("a" -> 1))
      }
      assert(operator(server, "mine/sink").get("label").asText == "the dashboard")
      assert(upstreams(operator(server, "mine/sink")) == Set("mine"))
      assert(server.reports.forall(_.at("/operators/0/operator").asText == "mine"))
    }
  }
}
