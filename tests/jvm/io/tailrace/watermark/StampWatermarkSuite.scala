package io.tailrace.watermark

import java.io.File

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions._

import io.tailrace.api.Tailrace
import io.tailrace.testkit.LoggedStream.{at, logged}
import io.tailrace.testkit.{Logged, LoggedStream}

/** `stamp_watermark` and `stamped_watermark` in streaming queries. */
final class StampWatermarkSuite extends HostsWatermarkSuite {

  test("a stamp is before all rows that have it or come later, and no earlier than it must be") {
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)({ in =>
        val counts = watermark(whole.copy(completeness = "99.9%"))(in.head)
          .groupBy(window(col("at"), "10 seconds"))
          .count()
        Tailrace
          .stampWatermark(counts)
          .select(col("window.start"), call_function("parse_watermark_stamp", col("watermark")).as("stamp"))
          .select("start", "stamp.low_watermark", "stamp.completeness")
      }).start()
      val share = new java.math.BigDecimal("0.999").setScale(18)
      assert(stream.add(logged("a" -> 1, "b" -> 2)) == Nil)
      assert(stream.add(logged("a" -> 11, "b" -> 12)) == Seq(Row(at(0), at(0.999001), share)))
      val twice = stream.add(logged("a" -> 35, "b" -> 35))
      assert(twice.map(_.get(0)) == Seq(at(10)) && twice.map(_.get(1)).forall(_ == at(10.999001)))
    }
    withDirectory { directory =>
      val stream = new LoggedStream(spark, directory)(in =>
        Tailrace
          .stampWatermark(watermark(whole)(in.head))
          .select(
            col("id"),
            call_function("parse_watermark_stamp", col("watermark")).getField("low_watermark")
          )
      ).start()
      assert(stream.add(logged("a" -> 1, "b" -> 2)).map(_.get(1)) == Seq(null, null))
      assert(stream.add(logged("a" -> 11)) == Seq(Row(11000L, at(0.999001))))
      stream.restart()
      assert(stream.add(logged("b" -> 11)) == Seq(Row(11000L, at(1.999001))))
    }
  }

  test("the low watermark is the least of the partitions' latest stamps, and their shares are multiplied") {
    withDirectory { directory =>
      def share(text: String): Long = Completeness.parse(text).get.units
      // The id of a row says what its stamp is: seconds, and 0 for none.
      val stamp = udf { (id: Long) =>
        if (id < 0) Array[Byte](1, 2)
        else if (id == 0) WatermarkStamp.encode(Long.MinValue, share("1"))
        else WatermarkStamp.encode((LoggedStream.Noon + id) * 1000000, share(if (id < 50) "0.9" else "0.99"))
      }
      val options = WatermarkOptions(completeness = "100%")
      val stream = new LoggedStream(spark, directory)({ in =>
        val topic = in.head.withColumn("topic", lit("t")).withColumn("w", stamp(col("id")))
        val down = Tailrace.stampedWatermark(topic, "at", "w", Seq("topic", "host"), options)
        assert(down.columns.toSeq == Seq("host", "at", "id", "topic", "w"))
        val counts = down.groupBy(window(col("at"), "10 seconds")).count()
        Tailrace
          .stampWatermark(counts)
          .select(
            col("window.start"),
            col("count"),
            call_function("parse_watermark_stamp", col("watermark")).getField("completeness")
          )
      }).start()
      def row(partition: String, second: Double, stamp: Long): Logged = Logged(partition, at(second), stamp)
      assert(stream.add(Seq(row("a", 1, 60), row("a", 900, 0), row("b", 2, 0))) == Nil)
      assert(stream.watermark == -LoggedStream.Noon.toDouble)
      assert(stream.add(Seq(row("b", 2, -1), row("b", 3, 5))) == Nil)
      assert(stream.watermark == 4.999)
      val composed = new java.math.BigDecimal("0.9").setScale(18)
      assert(stream.add(Seq(row("b", 50, 11), row("b", 50, 3))) == Seq(Row(at(0), 4L, composed)))
      assert(stream.metrics().getAs[Long]("hosts") == 2)
    }
  }

  test("a stamp ahead of the clock is clamped, is marked, or ends the query; partitions have own names") {
    def stream(directory: File, action: String): LoggedStream = {
      val stamp = udf { (id: Long) =>
        WatermarkStamp.encode((LoggedStream.Noon + id) * 1000000, WatermarkStamp.WholeShare)
      }
      val options =
        WatermarkOptions(completeness = "100%", futureLimit = Some("1 hour"), onFuture = action)
      new LoggedStream(spark, directory)({ in =>
        val topic = in.head.withColumn("w", stamp(col("id"))).withColumn("p", lit("1"))
        val parts = Seq(0, 1).map(i => get(split(col("host"), ","), lit(i)))
        val down = topic.withColumn("t", parts.head).withColumn("q", parts.last)
        val marked = Tailrace.stampedWatermark(down, "at", "w", Seq("t", "q"), options)
        marked.select((col("id") +: marked.columns.toSeq.filter(_ == "_mark").map(col)): _*)
      }).start()
    }
    val rows = Seq(Logged("t,0", at(1), 5), Logged("t,1", at(1), 30000000000L))
    withDirectory { directory =>
      val clamped = stream(directory, "clamp")
      def low = clamped.metrics().getAs[java.sql.Timestamp]("lowWatermark")
      clamped.add(rows)
      assert(low == at(5) && clamped.metrics().getAs[Long]("futureRows") == 1)
      clamped.add(Seq(Logged("t,0", at(1), 30000000000L)))
      assert(Math.abs(low.getTime - System.currentTimeMillis - 3600000) < 60000)
      clamped.add(Seq(Logged("a-b,c", at(1), 5), Logged("a,b-c", at(1), 6), Logged("a", at(1), 6)))
      val slowest = clamped.metrics().getSeq[Row](clamped.metrics().fieldIndex("slowest")).map(_.getString(0))
      assert(slowest.take(2) == Seq("a-b-c", "a-b%2Dc") && clamped.metrics().getAs[Long]("hosts") == 4)
    }
    withDirectory { directory =>
      val marking = stream(directory, "mark")
      assert(marking.add(rows).map(_.getString(1)) == Seq(null, "future"))
      assert(
        marking.metrics().getAs[java.sql.Timestamp]("lowWatermark") == null,
        "a partition without a stamp"
      )
    }
    withDirectory { directory =>
      val failed = stream(directory, "fail")
      intercept[Exception](failed.add(rows))
      val (condition, parameters) = failureOf(failed.streaming)
      assert(condition == "TAILRACE_WATERMARK_FUTURE" && parameters("host") == "t-1")
    }
  }
}
