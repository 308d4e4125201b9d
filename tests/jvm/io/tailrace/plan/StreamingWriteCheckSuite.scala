package io.tailrace.plan

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streaming.{DataStreamWriter, OutputMode, Trigger}
import org.apache.spark.sql.tailrace.MemoryStream

import io.tailrace.api.Tailrace
import io.tailrace.asof.AsOfOptions
import io.tailrace.common.TailraceAnalysisException
import io.tailrace.recursion.RecursionOptions
import io.tailrace.replay.ReplayOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.testkit.{Engaged, Logged, LoggedStream, Served, SparkSuite, StreamHarness}
import io.tailrace.watermark.WatermarkOptions
import io.tailrace.windows.WindowOptions

/** Queries that `start()` refuses. */
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
      val frames = Seq(
        "tailrace.join" -> joined,
        "tailrace.join" -> joined.filter("id > 1").select("id"),
        "tailrace.sync_join" -> frame("tailrace.sync_join"),
        "tailrace.as_of" -> frame("tailrace.as_of")
      )
      frames.foreach { case (operator, frame) =>
        checkRefused("TAILRACE_OUTPUT_MODE_UNSUPPORTED", "operator" -> operator, "mode" -> name) {
          start(frame)(_.outputMode(mode))
        }
      }
      assert(spark.streams.active.isEmpty)
    }
  }

  test("one watermark for all stateful operators") {
    val allowed = "spark.sql.streaming.statefulOperator.allowMultiple"
    Seq("tailrace.join", "tailrace.sync_join", "tailrace.as_of").foreach { operator =>
      withConf(allowed -> "false") {
        checkRefused("TAILRACE_JOIN_WATERMARK_SHARED", "operator" -> operator)(
          start(frame(operator))(_ => ())
        )
        // Without a join of ours it is Spark's matter.
        start(MemoryStream[Served](spark).toDF())(_ => ())
        spark.streams.active.foreach(_.stop())
      }
    }
    assert(spark.streams.active.isEmpty)
  }

  /** A stream with each of the operators. */
  private def frame(operator: String): DataFrame = {
    def logs = {
      val made = MemoryStream[Logged](spark)
      made.addData(LoggedStream.logged("a" -> 1))
      made.toDF()
    }
    def watched = Tailrace.accurateWatermark(logs, "at", "host", WatermarkOptions())
    operator match {
      case "tailrace.join" => joined
      case "tailrace.sync_join" =>
        val host = Seq("host")
        val options =
          SyncOptions("at", "at", "1 hour", "1 second", leftPartition = host, rightPartition = host)
        Tailrace.syncJoin(logs, logs, Seq("id" -> "id"), options)
      case "tailrace.as_of" =>
        val timed = logs.withWatermark("at", "1 hour")
        Tailrace.asOf(timed, timed, Seq("id" -> "id"), AsOfOptions("at", "at"))
      case "tailrace.filter_replays" =>
        val records = logs.selectExpr("1L AS pid", "1 AS part", "id AS offset", "host AS topic", "id")
        Tailrace.filterReplays(
          records,
          ReplayOptions(Seq("pid", "part", "offset"), Seq("topic", "part", "id"))
        )
      case "tailrace.accurate_watermark" => watched
      case "tailrace.stamp_watermark" => Tailrace.stampWatermark(watched)
      case "tailrace.recursively" =>
        Tailrace.recursively(logs.select("id"), RecursionOptions())(
          _.where("id > 0").selectExpr("id - 1 AS id")
        )
    }
  }

  /** As the nodes say, so that a new node is among them. */
  private val all: Seq[String] = {
    val said = """override def operator: String = "([^"]+)"""".r
    val sources = Files.walk(new File("jvm/src/main/scala").toPath)
    try
      sources.iterator.asScala
        .filter(_.toString.endsWith(".scala"))
        .flatMap(file => said.findAllMatchIn(Files.readString(file)).map(_.group(1)))
        .toSeq
        .filterNot(_ == "tailrace.write_windows")
        .distinct
    finally sources.close()
  }

  test("each operator is known") {
    assert(all.size == 7)
  }

  test("real-time mode, with each operator") {
    // Spark first checks whether the sink supports the mode, and the test's sink doesn't. From 4.3 on, it checks settings, too.
    withConf(
      "spark.sql.streaming.realTimeMode.allowlistCheck" -> false,
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> 2,
      MixedStateSuite.Provider -> MixedStateSuite.RocksDB
    ) {
      all.foreach { operator =>
        checkRefused("TAILRACE_REAL_TIME_MODE_UNSUPPORTED", "operator" -> operator)(
          start(frame(operator))(_.trigger(Trigger.RealTime("5 minutes")))
        )
      }
    }
  }

  test("a continuous trigger, with each operator") {
    all.foreach { operator =>
      checkRefused("TAILRACE_CONTINUOUS_MODE_UNSUPPORTED", "operator" -> operator)(
        start(frame(operator))(_.trigger(Trigger.Continuous("1 second")))
      )
    }
  }

  test("windows are landed in append mode only") {
    val logs =
      Tailrace.accurateWatermark(MemoryStream[Logged](spark).toDF(), "at", "host", WatermarkOptions())
    withDirectory { d =>
      def writer = Tailrace.writeWindows(logs, d.getPath, "at", WindowOptions())
      val operator = "operator" -> "tailrace.write_windows"
      checkRefused("TAILRACE_CONTINUOUS_MODE_UNSUPPORTED", operator)(
        writer.trigger(Trigger.Continuous("1 second")).start()
      )
      intercept[TailraceAnalysisException](writer.outputMode(OutputMode.Update).start())
    }
  }

  // Spark refuses operators with state itself, or we do.
  test("asynchronous progress tracking, with an operator that writes files for each batch") {
    Seq("tailrace.filter_replays", "tailrace.accurate_watermark").foreach { operator =>
      val writer = frame(operator).writeStream.format("noop")
      withDirectory { d =>
        val query = writer
          .option("asyncProgressTrackingEnabled", "true")
          .option("checkpointLocation", d.getPath)
          .start()
        val (condition, parameters) = failureOf(query)
        assert(condition == "TAILRACE_ASYNC_PROGRESS_UNSUPPORTED" && parameters("operator") == operator)
      }
    }
  }

  test("a setting with an invalid value") {
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

  test("append mode starts, and any mode without a join") {
    start(joined)(_.outputMode(OutputMode.Append))
    spark.streams.active.foreach(_.stop())
    start(MemoryStream[Served](spark).toDF())(_.outputMode(OutputMode.Update))
    assert(spark.streams.active.length == 1)
  }
}
