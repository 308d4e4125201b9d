package io.tailrace.plan

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.{DataStreamWriter, OutputMode, Trigger}

import io.tailrace.testkit._

/** What is refused in `start()`, before a query exists. */
class StreamingWriteCheckSuite extends SparkSuite {
  import spark.implicits._

  private def joined: DataFrame =
    StreamHarness.join(StreamHarness.options("1 second"))(
      MemoryStream[Served](spark).toDF(),
      MemoryStream[Engaged](spark).toDF()
    )

  private def start(frame: DataFrame)(set: DataStreamWriter[_] => Unit): Unit = {
    val writer = frame.writeStream.format("memory").queryName("refused")
    set(writer)
    writer.start()
    ()
  }

  Seq(OutputMode.Update -> "Update", OutputMode.Complete -> "Complete").foreach { case (mode, name) =>
    test(s"output mode $name") {
      checkRefused("TAILRACE_OUTPUT_MODE_UNSUPPORTED", "mode" -> name)(start(joined)(_.outputMode(mode)))
      checkRefused("TAILRACE_OUTPUT_MODE_UNSUPPORTED", "mode" -> name) {
        start(joined.filter("id > 1").select("id"))(_.outputMode(mode))
      }
      assert(spark.streams.active.isEmpty)
    }
  }

  test("real-time mode") {
    // Spark asks first whether it knows the sink, and it doesn't know the test's.
    withConf("spark.sql.streaming.realTimeMode.allowlistCheck" -> false) {
      checkRefused("TAILRACE_REAL_TIME_MODE_UNSUPPORTED")(
        start(joined)(_.trigger(Trigger.RealTime("5 minutes")))
      )
    }
  }

  test("a setting that makes no sense") {
    withConf("spark.tailrace.state.durability" -> "partial") {
      checkRefused(
        "TAILRACE_CONF_INVALID",
        "key" -> "spark.tailrace.state.durability",
        "value" -> "partial",
        "expected" -> "one of full, none"
      )(start(joined)(_.outputMode(OutputMode.Append)))
    }
    assert(spark.streams.active.isEmpty)
  }

  test("append is started, and so is any mode without a join") {
    start(joined)(_.outputMode(OutputMode.Append))
    spark.streams.active.foreach(_.stop())
    start(MemoryStream[Served](spark).toDF())(_.outputMode(OutputMode.Update))
    assert(spark.streams.active.length == 1)
  }
}
