package io.tailrace.watermark

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._

import io.tailrace.api.Tailrace
import io.tailrace.testkit.LoggedStream
import io.tailrace.testkit.LoggedStream.logged

/** Wrong arguments of `accurate_watermark` are refused, and the error names the argument. */
final class WatermarkArgumentsSuite extends HostsWatermarkSuite {

  test("a batch DataFrame comes back unchanged") {
    val frame = spark.createDataFrame(logged("a" -> 1, "b" -> 2))
    assert(watermark(whole)(frame).collect().toSeq == frame.collect().toSeq)
    assert(!watermark(whole)(frame).queryExecution.analyzed.exists(_.isInstanceOf[HostProgress]))
    val marked = watermark(whole.copy(futureLimit = Some("1 hour"), onFuture = "mark"))(frame)
    assert(marked.columns.toSeq == Seq("host", "at", "id", "_mark"))
  }

  test("a wrong argument is refused when the DataFrame is made") {
    val frame = spark.createDataFrame(logged("a" -> 1))
    def served(url: String) = whole.copy(server = Some(url), app = Some("my app"))
    def condition(
        options: WatermarkOptions = whole,
        of: DataFrame = frame,
        time: String = "at",
        host: String = "host"
    ) =
      intercept[io.tailrace.common.TailraceAnalysisException](
        Tailrace.accurateWatermark(of, time, host, options)
      ).getCondition
    assert(condition(time = "when") == "TAILRACE_COLUMN_NOT_FOUND")
    assert(condition(host = "who") == "TAILRACE_COLUMN_NOT_FOUND")
    assert(condition(time = "id") == "TAILRACE_COLUMN_TYPE")
    assert(condition(host = "id") == "TAILRACE_COLUMN_TYPE")
    assert(condition(whole.copy(hosts = Some(Nil))) == "TAILRACE_OPTION_INVALID")
    val marking = whole.copy(futureLimit = Some("1 hour"), onFuture = "mark")
    assert(condition(marking, frame.withColumn("_mark", lit(1))) == "TAILRACE_COLUMN_EXISTS")
    assert(
      condition(served("http://127.0.0.1:7171").copy(app = None)) == "TAILRACE_OPTION_NEEDS"
    )
    Seq(
      whole.copy(app = Some("clicks")),
      whole.copy(operator = Some("source")),
      whole.copy(token = Some("secret")),
      whole.copy(logs = Some("web"))
    ).foreach(options => assert(condition(options) == "TAILRACE_OPTION_NEEDS", options))
    Seq("mark", "fail").foreach { action =>
      assert(condition(whole.copy(onFuture = action)) == "TAILRACE_OPTION_NEEDS", action)
    }
    Seq(
      whole.copy(completeness = "0%"),
      whole.copy(completeness = "101%"),
      whole.copy(onFuture = "drop"),
      whole.copy(name = "a/b"),
      whole.copy(delay = "-1 second"),
      whole.copy(idleAfter = Some("1 month")),
      whole.copy(idleAfter = Some("0 seconds")),
      whole.copy(futureLimit = Some("soon")),
      whole.copy(server = Some("localhost:7171"), app = Some("clicks")),
      served("http://a b"),
      served("http://127.0.0.1:99999"),
      served("http://127.0.0.1:0"),
      served("http://user:password@127.0.0.1:7171"),
      served("http://my_host:7171"),
      served("http://127.0.0.1:7171").copy(hosts = Some((0 to 100000).map(_.toString))),
      served("http://127.0.0.1:7171").copy(hosts = Some((0 to 50000).map(i => s"$i" + "h" * 190))),
      served("http://127.0.0.1:7171").copy(operator = Some("")),
      served("http://127.0.0.1:7171").copy(operator = Some("a\nb")),
      served("http://127.0.0.1:7171").copy(operator = Some("o" * 201)),
      served("http://127.0.0.1:7171").copy(app = Some("a\u0085b")),
      served("http://127.0.0.1:7171").copy(token = Some("a\nb"))
    ).foreach(options => assert(condition(options) == "TAILRACE_OPTION_INVALID", options))
  }

  test("two accurate watermarks that report to one application need two operators") {
    withDirectory { directory =>
      checkRefused("TAILRACE_WATERMARK_OPERATOR_EXISTS", "operator" -> "source", "app" -> "my app") {
        new LoggedStream(spark, directory, sources = 2)(in =>
          in.zip(Seq("one", "two"))
            .map { case (logs, name) =>
              val at = if (name == "one") "http://127.0.0.1:1" else "http://127.0.0.1:1/"
              watermark(whole.copy(name = name, server = Some(at), app = Some("my app")))(logs)
            }
            .reduce(_ union _)
        ).start()
      }
    }
  }

  test("two accurate watermarks need two names") {
    withDirectory { directory =>
      checkRefused(
        "TAILRACE_NAME_EXISTS",
        "call" -> "tailrace.accurate_watermark",
        "name" -> "watermark"
      ) {
        new LoggedStream(spark, directory, sources = 2)(in =>
          counts(in.map(watermark(whole)).reduce(_ union _))
        ).start()
      }
    }
  }
}
